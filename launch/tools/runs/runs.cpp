#include "launch/tools/runs/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tools/report/run_results.h"
#include "launch/tools/status/status.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;
constexpr size_t kRecentSteps = 20;  // whose time predicts the time left
// Columns of the table.
constexpr int kAccuracy = 5, kColumns = 9;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.yaml", ignored) &&
         fs::is_regular_file(folder / "metrics.jsonl", ignored);
}

void add_runs(const fs::path& folder, int depth, std::vector<fs::path>& runs) {
  if (is_run(folder)) return runs.push_back(folder);
  if (depth == kDeepest) return;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_hidden = entry.path().filename().string().starts_with('.');
    if (is_hidden || entry.is_symlink(error) || !entry.is_directory(error)) continue;
    add_runs(entry.path(), depth + 1, runs);
  }
}

/// Seconds since the run wrote a line.
double age_of(const fs::path& run) {
  std::error_code error;
  const auto written = fs::last_write_time(run / "metrics.jsonl", error);
  if (error) return HUGE_VAL;
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
  return std::max(0.0, age.count());
}

std::string seconds_left(const RunRecord& run) {
  const RunSeries* times = run.find("step_ms");
  const auto total = run.total_steps();
  if (times == nullptr || !total || *total <= run.last_step) return "";
  std::vector<double> recent;
  for (size_t i = times->size() - std::min(times->size(), kRecentSteps); i < times->size(); ++i) {
    if (std::isfinite((*times)[i].value)) recent.push_back((*times)[i].value);
  }
  if (recent.empty()) return "";
  const auto middle = recent.begin() + static_cast<std::ptrdiff_t>(recent.size() / 2);
  std::ranges::nth_element(recent, middle);
  return human_duration(static_cast<double>(*total - run.last_step) * *middle / 1000.0);
}

bool is_alive(const std::string& state) {
  constexpr const char* kAlive[] = {"starting", "training", "evaluating", "saving", "waiting"};
  return std::ranges::find(kAlive, state) != std::end(kAlive);
}

/// "arc 28.6%, hellaswag 30.1%"; "" without multiple-choice questions.
std::string accuracies(const RunResults& results) {
  std::string text;
  for (const auto& [name, accuracy] : results.choices) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent(accuracy));
  }
  return text;
}

std::vector<std::string> row_of(const fs::path& path, double age) {
  std::vector<std::string> row = {path.string()};
  try {
    const RunRecord run = read_run(path);
    const RunResults results = results_of(run);
    std::string state = run_state(path);
    if (state == "ended in order") state = run.has_finished() ? "finished" : "stopped";
    const auto total = run.total_steps();
    row.push_back(state);
    row.push_back(grouped(run.last_step) + (total ? "/" + grouped(*total) : ""));
    row.push_back(results.loss ? measured(results.loss->value) : "");
    row.push_back(results.eval_loss
                      ? fmt::format("{} (step {})", measured(results.eval_loss->value),
                                    grouped(results.eval_loss->step))
                      : "");
    row.push_back(accuracies(results));
    row.push_back(results.tokens_per_second ? human_amount(*results.tokens_per_second) : "");
    row.push_back(is_alive(state) ? seconds_left(run) : "");
  } catch (const Error& error) {
    row.resize(kColumns - 1);
    row[1] = fmt::format("cannot be read: {}", error.what());
  }
  row.push_back(std::isfinite(age) ? human_duration(age) + " ago" : "");
  return row;
}

}  // namespace

std::vector<fs::path> find_runs(const fs::path& folder) {
  require(fs::is_directory(folder), "{} is not a folder: pass a folder with runs", folder.string());
  std::vector<fs::path> runs;
  add_runs(folder, 0, runs);
  return runs;
}

std::string runs_table(const std::vector<fs::path>& runs) {
  std::vector<std::pair<double, fs::path>> by_age;
  for (const fs::path& run : runs) by_age.emplace_back(age_of(run), run);
  std::ranges::sort(by_age);
  std::vector<std::vector<std::string>> rows = {{"run", "state", "step", "loss", "best evaluation",
                                                 "accuracy", "tokens/s", "left", "last line"}};
  for (const auto& [age, run] : by_age) rows.push_back(row_of(run, age));
  const bool has_accuracies = std::ranges::any_of(
      rows.begin() + 1, rows.end(), [](const auto& row) { return !row[kAccuracy].empty(); });
  if (!has_accuracies) {
    for (auto& row : rows) row.erase(row.begin() + kAccuracy);
  }
  return table(rows, {2, 3, 4, 5, 6, 7, 8});
}

}  // namespace tessera
