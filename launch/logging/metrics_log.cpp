#include "launch/logging/metrics_log.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"
#include "launch/support/files/staged_file.h"
#include "launch/support/input/json_log.h"
#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

/// Calls visit(line, step) for each line but those that a crash truncated.
template <typename Visit>
void for_each_step(const std::filesystem::path& path, Visit&& visit) {
  for_each_json_line(path, [&](const JsonLogLine& line) {
    const auto step = line.object.find("step");
    if (step != line.object.end() && step->is_number_integer()) visit(line, step->get<int64_t>());
  });
}

/// The lines of a log up to `steps_done`.
std::string lines_until(const std::filesystem::path& path, int64_t steps_done) {
  std::string kept;
  for_each_step(path, [&](const JsonLogLine& line, int64_t step) {
    if (step <= steps_done) kept += line.text + "\n";
  });
  return kept;
}

/// Markdown that shows a text as it is, whatever is in it.
std::string code_block(const std::string& text) {
  size_t longest = 2, run = 0;  // of backquotes
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fmt::format("{}\n{}\n{}\n", fence, text, fence);
}

/// Removes later lines than those of `steps_done`. Returns `path`.
std::filesystem::path shortened(const std::filesystem::path& path, int64_t steps_done) {
  std::error_code ignored;
  require(
      !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored),
      "{} is no regular file: remove it", path.string());
  StagedFile kept(path.string(), Replace::own);
  kept.write(lines_until(path, steps_done));
  kept.close();
  kept.publish();
  return path;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done,
                       const std::optional<std::string>& configuration, bool has_samples)
    : file_(shortened(run_dir / "metrics.jsonl", steps_done)) {
  const std::filesystem::path samples = run_dir / "samples.jsonl";
  std::error_code ignored;
  if (has_samples || std::filesystem::exists(samples, ignored)) {
    samples_.emplace(shortened(samples, steps_done));
  }
  if (!configuration) return;
  tensorboard_.emplace(run_dir, steps_done);
  tensorboard_->text(steps_done, "configuration", fmt::format("```yaml\n{}```\n", *configuration));
}

void MetricsLog::step(const StepResult& result, int64_t run_tokens, const Speed& speed,
                      const std::optional<SlowestRank>& slowest) {
  Json line = {{"step", result.step},
               {"loss", result.has_targets ? Json(result.loss()) : Json()},
               {"grad_norm", result.grad_norm},
               {"lr", result.lr},
               {"tokens", run_tokens},
               {"tokens_per_second", speed.tokens},
               {"padded_tokens_per_second", speed.padded_tokens},
               {"step_ms", result.seconds_per_step() * 1e3}};
  if (!result.has_targets) line["loss_undefined"] = "no token or text has a target";
  line["data_wait_seconds"] = speed.data_wait_seconds;
  line["model_flops_per_second"] = speed.flops;
  if (speed.mfu) line["mfu"] = *speed.mfu;
  if (result.noise_scale) line["noise_scale"] = *result.noise_scale;
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
  Json line = {{"step", step}};
  const Json numbers = numbers_of(found);
  for (const auto& [key, value] : numbers.items()) line["eval_" + key] = value;
  for (const DatasetLosses& dataset : found.datasets) {
    line["eval_loss/" + dataset.name] = dataset.losses.total();
    if (dataset.bits_per_byte) line["eval_bits_per_byte/" + dataset.name] = *dataset.bits_per_byte;
  }
  for (const ChoiceScores& scores : found.choices) {
    const std::string acc = fmt::format("eval_{}_acc", scores.name);
    line[acc] = scores.acc.value;
    line[acc + "_stderr"] = scores.acc.error;
    line[acc + "_norm"] = scores.acc_norm.value;
    line[acc + "_norm_stderr"] = scores.acc_norm.error;
  }
  write(line);
}

void MetricsLog::event(int64_t step, const char* kind, const std::string& text) {
  write({{"step", step}, {kind, valid_utf8(text)}});
}

void MetricsLog::saved(const SavedCheckpoint& saved) {
  write({{"step", saved.step},
         {"save_seconds", saved.seconds},
         {"save_background_seconds", saved.background_seconds}});
}

void MetricsLog::samples(int64_t step, const std::vector<ModelSample>& samples) {
  std::string lines;  // together, so that a step has all or none of them
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string prompt = valid_utf8(samples[i].prompt), text = valid_utf8(samples[i].text);
    const Json line = {{"step", step}, {"prompt", prompt}, {"text", text}};
    lines += line.dump() + "\n";
    if (!tensorboard_) continue;
    tensorboard_->text(
        step, fmt::format("samples/{}", i + 1),
        fmt::format("Prompt:\n\n{}\nText:\n\n{}", code_block(prompt), code_block(text)));
  }
  samples_.value().append(lines);
}

void MetricsLog::histogram(int64_t step, const std::string& tag, const ValueHistogram& histogram) {
  if (tensorboard_) tensorboard_->histogram(step, tag, histogram);
}

void MetricsLog::picture(int64_t step, const Picture& picture) {
  if (tensorboard_) tensorboard_->picture(step, picture);
}

void MetricsLog::write(const Json& line) {
  file_.append(line.dump() + "\n");
  if (tensorboard_) tensorboard_->numbers(line);
}

std::optional<std::string> MetricsLog::problem() {
  if (auto problem = file_.problem()) return problem;
  if (samples_) {
    if (auto problem = samples_->problem()) return "samples.jsonl: " + *problem;
  }
  if (!tensorboard_) return std::nullopt;
  auto problem = tensorboard_->problem();
  if (problem) problem = "TensorBoard's file: " + *problem;
  return problem;
}

EvaluationHistory logged_evaluations(const std::filesystem::path& run_dir) {
  EvaluationHistory history;
  for_each_step(run_dir / "metrics.jsonl", [&](const JsonLogLine& line, int64_t step) {
    const char* const key = line.object.contains("eval_ema_loss") ? "eval_ema_loss" : "eval_loss";
    const auto loss = line.object.find(key);
    if (loss == line.object.end()) return;
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    history.add(step, loss->is_number() ? loss->get<double>() : kNan);
  });
  return history;
}

}  // namespace tessera
