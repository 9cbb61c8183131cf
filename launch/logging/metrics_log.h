#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/run_state.h"
#include "launch/logging/console.h"
#include "launch/logging/tensorboard_log.h"
#include "launch/metrics/model_sample.h"
#include "launch/support/files/appended_file.h"

namespace tessera {

/// RUN/metrics.jsonl: one JSON object per line. There are six kinds of lines.
///
/// Steps: step, loss, grad_norm, lr, tokens (of the run so far, without padding),
/// tokens_per_second, padded_tokens_per_second, step_ms, data_wait_seconds (since the previous
/// line, for the slowest rank of each step), model_flops_per_second (all ranks), mfu if the GPU's
/// peak is known, token_loss and document_loss if a step has both, noise_scale (see NoiseScale) if
/// it is measured, and, with several CPU ranks, slowest_rank, slowest_rank_steps and
/// slowest_rank_share (see SlowestRank).
///
/// Evaluations: step, eval_loss, eval_ema_loss if the weights have an average, and the fields of
/// Evaluation; of each dataset NAME of a blend, eval_loss/NAME and eval_bits_per_byte/NAME; of each
/// file of questions NAME, eval_NAME_acc, eval_NAME_acc_stderr, eval_NAME_acc_norm and
/// eval_NAME_acc_norm_stderr.
///
/// Checkpoints: step, save_seconds (how long training waited) and save_background_seconds (work in
/// the background). They may follow lines of later steps.
///
/// Steps that changed no weight, because they were not finite or spikes: step, bad_step (the
/// reason, see BadStep), grad_norm, skipped_steps (so far), samples (numbers of the global batch's
/// samples in the training data); of a spike, the median that it was compared with; of others, if
/// they were computed again, the fields of StepDiagnosis.
///
/// Rollbacks: step (of the checkpoint), rollbacks (so far), and the fields of the step that failed,
/// whose number is failed_step. Later lines of the steps that were left behind are removed.
///
/// RUN/samples.jsonl has a line for each text that the model wrote for a prompt of eval.prompts:
/// step, prompt and text, in which U+FFFD replaces bytes that are not UTF-8.
///
/// A number that is not finite is written as null. Lines that cannot be written, as on a full disk,
/// are kept and written before the next one. TensorBoard gets the same numbers and texts if it is
/// wanted.
class MetricsLog {
 public:
  /// Opens the log to continue after `steps_done`. Removes lines of later steps, which an earlier
  /// run wrote but did not save, also from samples.jsonl. Throws if a file cannot be written, or is
  /// no regular file. With a `configuration`, in YAML, TensorBoard gets it and all numbers. Set
  /// `has_samples` if there will be samples.
  MetricsLog(const std::filesystem::path& run_dir, int64_t steps_done,
             const std::optional<std::string>& configuration = {}, bool has_samples = false);

  void step(const StepResult& result, int64_t run_tokens, const Speed& speed,
            const std::optional<SlowestRank>& slowest = {});
  void bad_step(const BadStep& bad);
  /// To the checkpoint of `step`, after `failed`.
  void rolled_back(int64_t step, const BadStep& failed, int64_t rollbacks);
  void evaluation(int64_t step, const Evaluation& found);
  /// Logs an event after a step, in a sentence: a "warning", or why the run "failed".
  void event(int64_t step, const char* kind, const std::string& text);
  void saved(const SavedCheckpoint& saved);
  void samples(int64_t step, const std::vector<ModelSample>& samples);
  // For TensorBoard alone.
  void histogram(int64_t step, const std::string& tag, const ValueHistogram& histogram);
  void picture(int64_t step, const Picture& picture);

  /// Why the last lines could not be written, or nullopt. Tries again.
  std::optional<std::string> problem();

 private:
  void write(const Json& line);

  AppendedFile file_;
  std::optional<AppendedFile> samples_;
  std::optional<TensorBoardLog> tensorboard_;
};

/// The evaluations in RUN/metrics.jsonl, of the averaged weights once there are any.
EvaluationHistory logged_evaluations(const std::filesystem::path& run_dir);

}  // namespace tessera
