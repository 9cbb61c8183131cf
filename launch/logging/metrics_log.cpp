#include "launch/logging/metrics_log.h"

#include <string>

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

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done)
    : path_(run_dir / "metrics.jsonl") {
  StagedFile kept(path_.string());
  kept.write(lines_until(path_, steps_done));
  kept.close();
  kept.publish();
  file_.open(path_, std::ios::app);
  require(file_.good(), "{} cannot be written", path_.string());
}

void MetricsLog::step(const StepResult& result, int64_t run_tokens, const Speed& speed) {
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
  if (result.losses.token != 0.0 && result.losses.document != 0.0) {
    line["token_loss"] = result.losses.token;
    line["document_loss"] = result.losses.document;
  }
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
  file_ << line.dump() << '\n';
  require(file_.flush().good(), "{} cannot be written: is the disk full?", path_.string());
}

}  // namespace tessera
