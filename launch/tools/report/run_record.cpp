#include "launch/tools/report/run_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "core/error.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/values/yaml_reader.h"
#include "launch/support/input/json_log.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/json.h"
#include "launch/support/text/number_text.h"
#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostExamples = 3;
constexpr int64_t kLargestStep = int64_t{1} << 53;  // a page's numbers are doubles
constexpr double kLargestValue = 1e300;
constexpr size_t kMostEvaluationKeys = 100;
constexpr size_t kMostAttentionBytes = size_t{64} << 20;

/// The numbers of step and checkpoint lines that a report shows.
constexpr std::string_view kKeys[] = {
    "loss",
    "token_loss",
    "document_loss",
    "lr",
    "grad_norm",
    "noise_scale",
    "tokens",
    "tokens_per_second",
    "model_flops_per_second",
    "mfu",
    "step_ms",
    "data_wait_seconds",
    "slowest_rank_share",
    "save_seconds",
    "save_background_seconds",
};

std::optional<int64_t> integer_at(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<int64_t>();
  if (value < 0 || value > kLargestStep) return std::nullopt;
  return value;
}

std::string text_at(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

double double_of(const Json& value) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  return std::abs(number) <= kLargestValue ? number : std::nan("");
}

/// The number as a reader wants it, or "not finite".
std::string shown(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) return "not known";
  const double value = double_of(*found);
  return std::isnan(value) ? "not finite" : measured(value, 3);
}

/// Collects the lines of metrics.jsonl.
class MetricsReader {
 public:
  explicit MetricsReader(RunRecord& record) : record_(record) {}

  void add(int64_t number, const Json& line) {
    if (line.is_null()) return damaged_.add(number, "is no JSON object");
    const std::optional<int64_t> step = integer_at(line, "step");
    if (!step) return damaged_.add(number, "has no step");
    for (const std::string_view key : kKeys) {
      const auto found = line.find(key);
      if (found == line.end() || found->is_number() || found->is_null()) continue;
      return damaged_.add(number, fmt::format("has a {} that is no number", key));
    }
    if (line.contains("rollbacks")) {
      add_rollback(*step, line);
    } else if (line.contains("bad_step")) {
      add_skipped(*step, line);
    } else if (const std::string warning = text_at(line, "warning"); !warning.empty()) {
      add_event({RunEvent::Kind::warning, *step, warning}, warnings_);
    } else if (const std::string why = text_at(line, "failed"); !why.empty()) {
      add_event({RunEvent::Kind::failure, *step, "failed: " + why}, failures_);
    } else {
      add_values(*step, line);
    }
  }

  void finish() {
    for (auto& [key, series] : record_.series) sort_steps(series);
    std::ranges::stable_sort(record_.events, {}, &RunEvent::step);
    if (const std::string text = damaged_.text(); !text.empty()) record_.problems.push_back(text);
  }

 private:
  void add_values(int64_t step, const Json& line) {
    for (const auto& [key, value] : line.items()) {
      if (!value.is_number() && !value.is_null()) continue;  // as the F1 of each label
      const bool evaluation = key.starts_with("eval_");
      if (!evaluation && std::ranges::find(kKeys, key) == std::end(kKeys)) continue;
      if (evaluation && evaluation_keys_.size() >= kMostEvaluationKeys &&
          !evaluation_keys_.contains(key)) {
        continue;
      }
      if (evaluation) evaluation_keys_.insert(key);
      record_.series[key].push_back({step, double_of(value)});
    }
    if (line.contains("loss")) record_.last_step = std::max(record_.last_step, step);
    // A run that was continued knows of steps that it skipped before.
    if (const auto skipped = integer_at(line, "skipped_steps")) {
      record_.skipped_steps = std::max(record_.skipped_steps, *skipped);
    }
  }

  void add_event(RunEvent event, int64_t& count) {
    if (++count <= static_cast<int64_t>(RunRecord::kMostEvents)) {
      record_.events.push_back(std::move(event));
    }
  }

  void add_rollback(int64_t step, const Json& line) {
    const std::optional<int64_t> failed = integer_at(line, "failed_step");
    const std::string what =
        failed ? fmt::format(", because of step {} ({})", *failed, text_at(line, "bad_step")) : "";
    add_event({RunEvent::Kind::rollback, step,
               fmt::format("went back to the checkpoint of step {}{}", step, what)},
              rollbacks_);
    record_.rollbacks =
        std::max({record_.rollbacks, rollbacks_, integer_at(line, "rollbacks").value_or(0)});
  }

  void add_skipped(int64_t step, const Json& line) {
    const std::string reason = text_at(line, "bad_step");
    std::string text = fmt::format("changed no weight: gradient norm {}", shown(line, "grad_norm"));
    if (reason == "spike") {
      text = fmt::format("changed no weight: a spike, gradient norm {} with a median of {}",
                         shown(line, "grad_norm"), shown(line, "median"));
    } else if (!reason.empty()) {
      text = fmt::format("changed no weight: the {} was not finite", reason);
    }
    if (const std::string first = text_at(line, "first_not_finite"); !first.empty()) {
      text += ", first in " + first;
    }
    add_event({RunEvent::Kind::skipped, step, text}, skipped_);
    record_.skipped_steps =
        std::max({record_.skipped_steps, skipped_, integer_at(line, "skipped_steps").value_or(0)});
  }

  /// Sorts by step and keeps the last line of each.
  static void sort_steps(RunSeries& series) {
    std::ranges::stable_sort(series, {}, &RunPoint::step);
    RunSeries kept;
    for (const RunPoint& point : series) {
      if (!kept.empty() && kept.back().step == point.step) kept.pop_back();
      kept.push_back(point);
    }
    series = std::move(kept);
  }

  RunRecord& record_;
  DamagedLines damaged_ = {.file = "metrics.jsonl"};
  std::set<std::string, std::less<>> evaluation_keys_;
  int64_t skipped_ = 0, rollbacks_ = 0, warnings_ = 0, failures_ = 0;
};

/// Collects the lines of supervise.jsonl.
class JournalReader {
 public:
  explicit JournalReader(RunRecord& record) : record_(record) {}

  void add(int64_t number, const Json& line) {
    if (line.is_null()) return damaged_.add(number, "is no JSON object");
    const std::string event = text_at(line, "event");
    if (event.empty()) return damaged_.add(number, "has no event");
    if (event == "start") add_start(line);
    if (event == "end" && !record_.starts.empty()) add_end(line);
    if (event == "host_left_out") {
      layout_ = fmt::format("host {} is left out: {} ranks, {} tensor ranks", text_at(line, "host"),
                            integer_at(line, "ranks").value_or(0),
                            integer_at(line, "tensor").value_or(0));
    }
  }

  void finish() {
    for (size_t i = 1; i < record_.starts.size(); ++i) {
      const RunStart& before = record_.starts[i - 1];
      const RunStart& start = record_.starts[i];
      std::string text = fmt::format("started again from step {}", start.step);
      if (!before.end.empty()) text += ": " + before.end;
      if (!start.layout.empty()) text += "; " + start.layout;
      record_.events.push_back({RunEvent::Kind::restart, start.step, text});
    }
    std::ranges::stable_sort(record_.events, {}, &RunEvent::step);
    if (const std::string text = damaged_.text(); !text.empty()) record_.problems.push_back(text);
  }

 private:
  void add_start(const Json& line) {
    if (record_.starts.size() >= RunRecord::kMostStarts) return;
    RunStart start;
    start.time = text_at(line, "time");
    start.step = integer_at(line, "step").value_or(0);
    if (const auto words = line.find("command"); words != line.end() && words->is_array()) {
      for (const Json& word : *words) {
        if (!word.is_string()) continue;
        start.command += (start.command.empty() ? "" : " ") + word.get<std::string>();
      }
    }
    start.layout = std::exchange(layout_, "");
    record_.starts.push_back(std::move(start));
  }

  void add_end(const Json& line) {
    RunStart& start = record_.starts.back();
    start.end = text_at(line, "what");
    if (start.end.empty()) start.end = text_at(line, "reason");
    if (start.end.empty()) start.end = "not known";
    const auto seconds = line.find("seconds");
    if (seconds != line.end() && seconds->is_number()) start.seconds = double_of(*seconds);
    start.saved_step = integer_at(line, "step").value_or(0);
  }

  RunRecord& record_;
  DamagedLines damaged_ = {.file = "supervise.jsonl"};
  std::string layout_;  // of the next start
};

/// Collects the lines of samples.jsonl.
class SamplesReader {
 public:
  explicit SamplesReader(RunRecord& record) : record_(record) {}

  void add(int64_t number, const Json& line) {
    if (line.is_null()) return damaged_.add(number, "is no JSON object");
    const std::optional<int64_t> step = integer_at(line, "step");
    if (!step) return damaged_.add(number, "has no step");
    for (const char* key : {"prompt", "text"}) {
      const auto found = line.find(key);
      if (found == line.end() || !found->is_string()) {
        return damaged_.add(number, fmt::format("has no {}", key));
      }
    }
    by_step_[*step].push_back({cut(text_at(line, "prompt")), cut(text_at(line, "text"))});
  }

  void finish() {
    constexpr size_t kMost = RunRecord::kMostSamples;
    const size_t count = by_step_.size();
    size_t place = 0;
    for (auto& [step, texts] : by_step_) {
      // Keeps kMost of them, in equal distances, the last among them.
      const bool kept =
          count <= kMost || place == 0 ||
          place * (kMost - 1) / (count - 1) != (place - 1) * (kMost - 1) / (count - 1);
      ++place;
      if (kept) record_.samples.push_back({step, std::move(texts)});
    }
    if (const std::string text = damaged_.text(); !text.empty()) record_.problems.push_back(text);
  }

 private:
  static std::string cut(std::string text) {
    if (text.size() <= RunRecord::kMostSampleBytes) return text;
    text.resize(RunRecord::kMostSampleBytes);
    text.resize(text.size() - incomplete_utf8(text));
    return text + "…";
  }

  RunRecord& record_;
  DamagedLines damaged_ = {.file = "samples.jsonl"};
  std::map<int64_t, std::vector<ModelSample>> by_step_;
};

/// A value of any kind on one line.
std::string text_of(const ConfigValue& value) {
  std::vector<std::string> parts;
  switch (value.kind) {
    case ConfigValue::Kind::null:
      return "null";
    case ConfigValue::Kind::scalar:
      return value.text;
    case ConfigValue::Kind::list:
      for (const ConfigValue& item : value.items) parts.push_back(text_of(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case ConfigValue::Kind::map:
      for (size_t i = 0; i < value.keys.size() && i < value.items.size(); ++i) {
        parts.push_back(fmt::format("{}: {}", value.keys[i].text, text_of(value.items[i])));
      }
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  return "";
}

/// As training compares them (Trainer::evaluate).
EvaluationHistory evaluations_of(const RunRecord& run) {
  const std::optional<std::string> decay = run.config_value("optimizer.ema_decay");
  const RunSeries* averages = nullptr;
  if (decay && parse_number(*decay).value_or(0.0) > 0.0) averages = run.find("eval_ema_loss");
  const RunSeries* losses = run.find("eval_loss");
  EvaluationHistory history;
  if (losses == nullptr) return history;
  for (RunPoint point : *losses) {
    if (averages != nullptr) {
      const auto average = std::ranges::lower_bound(*averages, point.step, {}, &RunPoint::step);
      if (average != averages->end() && average->step == point.step) point = *average;
    }
    history.add(point.step, point.value);
  }
  return history;
}

}  // namespace

void DamagedLines::add(int64_t line, std::string_view what) {
  if (++count <= static_cast<int64_t>(kMostExamples)) {
    examples.push_back(fmt::format("line {} {}", line, what));
  }
}

std::string DamagedLines::text() const {
  if (count == 0) return "";
  return fmt::format("{}: {} damaged {} left out: {}{}", file, count,
                     count == 1 ? "line is" : "lines are", fmt::join(examples, ", "),
                     count > static_cast<int64_t>(kMostExamples) ? ", and more" : "");
}

const RunSeries* RunRecord::find(std::string_view key) const {
  const auto found = series.find(key);
  return found == series.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<std::string> RunRecord::config_value(std::string_view key) const {
  const auto found = std::ranges::find(config, key, &NamedValue::name);
  return found == config.end() ? std::nullopt : std::optional(found->value);
}

std::optional<int64_t> RunRecord::total_steps() const {
  const std::optional<std::string> text = config_value("train.steps");
  const std::optional<int64_t> steps = text ? parse_integer(*text) : std::nullopt;
  return steps && *steps > 0 ? steps : std::nullopt;
}

bool RunRecord::has_finished() const {
  const std::optional<int64_t> total = total_steps();
  if (total && last_step >= *total) return true;
  const std::optional<std::string> patience = config_value("eval.patience");
  return patience && evaluations_of(*this).exhausts(parse_integer(*patience).value_or(0));
}

namespace {

/// Lines without an end are still being written.
template <typename Reader>
void read_lines(std::istream& lines, RunRecord& record) {
  Reader reader(record);
  for_each_json_line(lines, [&](const JsonLogLine& line) {
    if (line.has_end) reader.add(line.number, line.object);
  });
  reader.finish();
}

}  // namespace

void read_metrics(std::istream& lines, RunRecord& record) {
  read_lines<MetricsReader>(lines, record);
}

void read_journal(std::istream& lines, RunRecord& record) {
  read_lines<JournalReader>(lines, record);
}

void read_samples(std::istream& lines, RunRecord& record) {
  read_lines<SamplesReader>(lines, record);
}

void read_attention(std::istream& file, RunRecord& record) {
  try {
    std::string text;
    std::vector<char> piece(size_t{64} << 10);
    while (file.read(piece.data(), std::ssize(piece)) || file.gcount() > 0) {
      text.append(piece.data(), static_cast<size_t>(file.gcount()));
      require(text.size() <= kMostAttentionBytes, "attention.json has more than {} bytes",
              kMostAttentionBytes);
    }
    const Json json = parse_json(text, "attention.json");
    RunAttention attention;
    attention.step = integer_at(json, "step").value_or(0);
    attention.report = attention_report_of(json, "attention.json");
    record.attention = std::move(attention);
  } catch (const Error& error) {
    record.problems.emplace_back(error.what());
  }
}

void read_keys(std::string_view name, std::string_view yaml, RunRecord& record) {
  try {
    const ConfigValue root = read_yaml({std::string(name), std::string(yaml)});
    require(root.kind == ConfigValue::Kind::map, "{}: no configuration", name);
    for (size_t i = 0; i < root.keys.size() && i < root.items.size(); ++i) {
      const ConfigValue& section = root.items[i];
      if (section.kind != ConfigValue::Kind::map) {
        record.config.push_back({root.keys[i].text, text_of(section)});
        continue;
      }
      for (size_t k = 0; k < section.keys.size() && k < section.items.size(); ++k) {
        record.config.push_back({fmt::format("{}.{}", root.keys[i].text, section.keys[k].text),
                                 text_of(section.items[k])});
      }
    }
  } catch (const Error& error) {
    record.config.clear();
    record.problems.emplace_back(error.what());
  }
}

RunRecord read_run(const fs::path& folder) {
  std::error_code ignored;
  require(fs::is_directory(folder, ignored), "{} is not a folder: pass the folder of a run",
          folder.string());
  const fs::path metrics = folder / "metrics.jsonl";
  require(fs::is_regular_file(metrics, ignored),
          "{} does not exist: {} is not the folder of a run (run.dir), or the run has not begun",
          metrics.string(), folder.string());
  std::ifstream file(metrics);
  require(file.is_open(), "{} cannot be read", metrics.string());
  RunRecord record;
  record.path = folder.string();
  read_metrics(file, record);
  const auto read_if_there = [&](const char* name, const auto& read) {
    const fs::path path = folder / name;
    if (!fs::exists(path, ignored)) return;
    std::ifstream lines;
    if (fs::is_regular_file(path, ignored)) lines.open(path);
    if (lines.is_open()) return read(lines, record);
    record.problems.push_back(fmt::format("{} cannot be read", path.string()));
  };
  read_if_there("supervise.jsonl", read_journal);
  read_if_there("samples.jsonl", read_samples);
  read_if_there("attention.json", read_attention);
  try {
    const SourceText source = read_config_file(folder / "config.yaml");
    record.config_text = source.text;
    read_keys("config.yaml", source.text, record);
  } catch (const Error& error) {
    record.problems.emplace_back(error.what());
  }
  return record;
}

}  // namespace tessera
