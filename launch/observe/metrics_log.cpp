#include "launch/observe/metrics_log.h"

#include <string>

#include "core/error.h"
#include "launch/files/staged_file.h"

namespace tessera {
namespace {

/// The lines of a log up to `steps_done`. What a crash cut short is no line.
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
  require(file_.good(), "{} can not be written", path_.string());
}

void MetricsLog::step(const StepResult& result, int64_t run_tokens, double tokens_per_second) {
  write({{"step", result.step},
         {"loss", result.loss},
         {"grad_norm", result.grad_norm},
         {"lr", result.lr},
         {"tokens", run_tokens},
         {"tokens_per_second", tokens_per_second},
         {"step_ms", result.seconds * 1e3}});
}

void MetricsLog::evaluation(int64_t step, double loss) {
  write({{"step", step}, {"eval_loss", loss}});
}

void MetricsLog::write(const Json& line) {
  file_ << line.dump() << '\n';
  require(file_.flush().good(), "{} can not be written: is the disk full?", path_.string());
}

}  // namespace tessera
