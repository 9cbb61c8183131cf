#include "launch/logging/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.h"
#include "launch/support/files/staged_file.h"

namespace tessera {
namespace {

/// The lines of a log up to `steps_done`. Drops lines that a crash truncated.
std::string lines_until(const std::filesystem::path& path, int64_t steps_done) {
  std::string kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= steps_done) kept += line + "\n";
  }
  return kept;
}

/// Removes later lines than those of `steps_done`, and opens the log to append.
int open_log(const std::filesystem::path& path, int64_t steps_done) {
  std::error_code ignored;
  require(
      !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored),
      "{} is no regular file: remove it", path.string());
  StagedFile kept(path.string());
  kept.write(lines_until(path, steps_done));
  kept.close();
  kept.publish();
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  require(file >= 0, "{} cannot be written: {}", path.string(), system_message(errno));
  return file;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done)
    : path_(run_dir / "metrics.jsonl"),
      file_(open_log(path_, steps_done)),
      written_(::lseek(file_.get(), 0, SEEK_END)) {}

void MetricsLog::step(const StepResult& result, int64_t run_tokens, const Speed& speed,
                      const std::optional<SlowestRank>& slowest) {
  Json line = {{"step", result.step},
               {"loss", result.loss()},
               {"grad_norm", result.grad_norm},
               {"lr", result.lr},
               {"tokens", run_tokens},
               {"tokens_per_second", speed.tokens},
               {"padded_tokens_per_second", speed.padded_tokens},
               {"step_ms", result.seconds_per_step() * 1e3}};
  line["data_wait_seconds"] = speed.data_wait_seconds;
  line["model_flops_per_second"] = speed.flops;
  if (speed.mfu) line["mfu"] = *speed.mfu;
  if (result.skipped_steps > 0) line["skipped_steps"] = result.skipped_steps;
  if (slowest) {
    line["slowest_rank"] = slowest->rank;
    line["slowest_rank_steps"] = slowest->steps;
    line["slowest_rank_share"] = slowest->share;
  }
  if (result.losses.token != 0.0 && result.losses.document != 0.0) {
    line["token_loss"] = result.losses.token;
    line["document_loss"] = result.losses.document;
  }
  write(line);
}

namespace {

Json fields_of(const BadStep& bad) {
  Json line = {{"step", bad.step},
               {"bad_step", bad.reason},
               {"grad_norm", bad.grad_norm},
               {"skipped_steps", bad.skipped_steps},
               {"samples", bad.samples}};
  if (bad.median > 0.0) line["median"] = bad.median;
  if (bad.diagnosis.is_object()) line.update(bad.diagnosis);
  return line;
}

}  // namespace

void MetricsLog::bad_step(const BadStep& bad) { write(fields_of(bad)); }

void MetricsLog::rolled_back(int64_t step, const BadStep& failed, int64_t rollbacks) {
  Json line = fields_of(failed);
  line["failed_step"] = failed.step;
  line["step"] = step;
  line["rollbacks"] = rollbacks;
  write(line);
}

void MetricsLog::evaluation(int64_t step, const Evaluation& found) {
  Json line = {{"step", step}, {"eval_loss", found.losses.total()}};
  if (found.counts.token_targets > 0) {
    line["eval_token_loss"] = found.losses.token;
    line["eval_token_accuracy"] = found.token_accuracy;
    line["eval_most_frequent_token"] = found.most_frequent_token;
  }
  if (found.counts.document_targets > 0) {
    line["eval_document_loss"] = found.losses.document;
    if (found.one_label) line["eval_document_accuracy"] = found.document_accuracy;
  }
  for (const Metric& metric : found.metrics)
    line[fmt::format("eval_{}", metric.key)] = metric.value;
  if (!found.f1.empty()) {
    if (found.one_label) line["eval_most_frequent_label"] = found.most_frequent_label;
    line["eval_f1"] = found.f1;
    line["eval_macro_f1"] = found.macro_f1();
  }
  write(line);
}

void MetricsLog::saved(const SavedCheckpoint& saved) {
  write({{"step", saved.step},
         {"save_seconds", saved.seconds},
         {"save_background_seconds", saved.background_seconds}});
}

void MetricsLog::write(const Json& line) {
  waiting_ += line.dump() + "\n";
  problem();
}

std::optional<std::string> MetricsLog::problem() {
  for (std::string_view rest = waiting_; !rest.empty();) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::string why = system_message(errno);
      // Leaves no part of a line, which would be written twice.
      if (::ftruncate(file_.get(), written_) != 0) return why + "; its last line is damaged";
      return why;
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  written_ += static_cast<off_t>(waiting_.size());
  waiting_.clear();
  return std::nullopt;
}

}  // namespace tessera
