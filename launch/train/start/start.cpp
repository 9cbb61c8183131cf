#include "launch/train/start/start.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/model_state.h"
#include "launch/checkpoint/run_state.h"
#include "launch/checkpoint/same_model.h"
#include "launch/config/values/source_text.h"
#include "launch/config/values/value_rule.h"
#include "launch/devices/gpu_versions.h"
#include "launch/support/files/file_descriptor.h"
#include "launch/support/files/whole_files.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Converts through the config, so that keys unknown to the checkpoint's version get a value.
Json saved_architecture(const Checkpoint& checkpoint) {
  return architecture_json(model_from_json(checkpoint.manifest().model));
}

/// Requires the labels that the classifier was trained with, because its rows stand for them.
void check_same_labels(const RunConfig& config, const Checkpoint& checkpoint) {
  const RunState saved = read_run_state(checkpoint.manifest());
  if (!saved.has_other_labels(config.data.labels)) return;
  fail(
      "{} has a classifier for the labels {}, but data.labels is {}: list the same labels in the "
      "same order, or start a new classifier in another run.dir with checkpoint.from={}",
      checkpoint.path().string(), excerpt(quote(*saved.labels), 200), quote(*config.data.labels),
      config.run.dir);
}

/// Requires the run's model, except for keys that may differ and for what matters only in training.
void check_model(const Checkpoint& checkpoint, const RunConfig& config,
                 const std::function<bool(std::string_view key)>& may_differ,
                 const std::string& advice) {
  const auto compared = [&](const Json& model) {
    Json kept = Json::object();
    for (const auto& [key, value] : model.items()) {
      if (key != "lora_dropout" && !may_differ(key)) kept[key] = value;
    }
    return kept;
  };
  check_same_model(compared(saved_architecture(checkpoint)),
                   compared(architecture_json(config.model)), checkpoint.path().string(), advice);
}

Checkpoint open_of_same_model(const RunConfig& config, const fs::path& path) {
  Checkpoint checkpoint = Checkpoint::open(path);
  with_exit_code(ExitCode::configuration, [&] {
    check_model(
        checkpoint, config, [](std::string_view) { return false; },
        "use the checkpoint's values, or start this model in another run.dir");
    check_same_labels(config, checkpoint);
  });
  return checkpoint;
}

/// Whether no weight of the model has a size that depends on how long its texts may be.
bool takes_any_length(const ModelConfig& model) {
  return model.positions != Positions::learned && !model.has_images() && !model.attention_mask_file;
}

/// For fine-tuning: requires the same model except for its heads, the frequencies of rotary
/// positions and, if its weights allow it, the length of its texts. Adapters may be added.
Checkpoint open_of_same_body(const RunConfig& config, const fs::path& path) {
  Checkpoint checkpoint = Checkpoint::open(path);
  const bool has_adapters = saved_architecture(checkpoint).at("lora_rank") != 0;
  const bool any_length = takes_any_length(config.model);
  const bool has_images = config.model.has_images();
  const auto may_differ = [&](std::string_view key) {
    if (key.starts_with("lora_")) return !has_adapters;
    if (key == "seq_length" || key == "source_length") return any_length;
    if (key == "classifier_pooling") return !has_images;
    return key.starts_with("rotary_") || key == "local_rotary_base" || is_of_heads(key);
  };
  check_model(
      checkpoint, config, may_differ,
      "checkpoint.from needs the same model, except for its heads, the frequencies of rotary "
      "positions and, without learned positions, its seq_length: use the checkpoint's "
      "values, which are in its run's config.yaml, or another checkpoint");
  return checkpoint;
}

/// Requires all that checkpoint.from_state needs. `before_step` is that of start_or_resume().
void require_state(const Checkpoint& checkpoint, std::optional<int64_t> before_step) {
  const std::string path = checkpoint.path().string();
  require(!has_weights_alone(checkpoint),
          "checkpoint.from_state is true, but {} has weights and no optimizer state: set it to "
          "false to start a new run with them",
          path);
  require(checkpoint.manifest().step < before_step.value_or(INT64_MAX),
          "the run began with step {}, the next one after {}: replay one of its own steps",
          checkpoint.manifest().step + 1, path);
}

/// Equal up to rounding: rescaled weights change shares by a few ulps.
bool is_same(const TrainPart& a, const TrainPart& b) {
  return a.samples == b.samples && std::abs(a.share - b.share) <= 1e-12 * b.share;
}

/// Warns if the coming samples differ from those the saved run would have seen. An import knows
/// none.
void report_other_order(const RunConfig& config, const Trainer& trainer, const RunState& saved,
                        const std::function<void(std::string)>& report) {
  const auto report_change = [&](const char* what, const Json& now, const Json& before) {
    report(
        fmt::format("{} is {}, but was {} when the checkpoint was saved: from here on the sample "
                    "order is different, so some samples may repeat or be skipped",
                    what, to_text(now), to_text(before)));
  };
  const int64_t seed = config.run.seed, samples = trainer.num_train_samples();
  const std::vector<TrainPart>&parts = trainer.train_parts(), &before = saved.train_parts;
  if (saved.seed.value_or(seed) != seed) report_change("run.seed", seed, *saved.seed);
  if (saved.train_samples.value_or(samples) != samples) {
    report_change("the number of training samples", samples, *saved.train_samples);
  } else if (!before.empty() && !std::ranges::equal(before, parts, is_same)) {
    report_change("the blend of data.train", to_json(parts), to_json(before));
  }
}

/// Says what becomes of the average of the weights if only the checkpoint or the run has one.
void report_other_average(const RunConfig& config, const Checkpoint& checkpoint,
                          const std::function<void(std::string)>& report) {
  const double decay = config.optimizer.ema_decay;
  if (has_weights_alone(checkpoint) || checkpoint.has_average() == (decay > 0.0)) return;
  const std::string path = checkpoint.path().string();
  if (decay > 0.0) {
    return report(fmt::format(
        "optimizer.ema_decay is {}, but {} has no average of the weights: it begins with the "
        "weights of step {}",
        decay, path, checkpoint.manifest().step));
  }
  report(fmt::format(
      "{} has an average of the weights, but optimizer.ema_decay is 0: from here on there is none",
      path));
}

/// Says if the checkpoint's bits come from another GPU, driver or library than the next steps'.
void report_other_versions(const Trainer& trainer, const Checkpoint& checkpoint,
                           const RunState& saved, const std::function<void(std::string)>& report) {
  if (trainer.gpu_versions().empty() || saved.gpu_versions.empty()) return;
  const std::string changes = changed_versions(trainer.gpu_versions(), saved.gpu_versions);
  if (changes.empty()) return;
  report(fmt::format("{}, with which {} was saved: sums may differ in the last bits from here on",
                     changes, checkpoint.path().string()));
}

/// Says if moments are converted to another dtype.
void report_other_moments(const RunConfig& config, const Checkpoint& checkpoint,
                          const std::function<void(std::string)>& report) {
  if (has_weights_alone(checkpoint)) return;
  const std::string saved = read_run_state(checkpoint.manifest()).moment_dtype.value_or("fp32");
  const DType now = config.optimizer.moment_dtype;
  if (saved == moment_dtype_name(now)) return;
  report(fmt::format("optimizer.moment_dtype is {}, but {} has moments in {}: they are {}",
                     moment_dtype_name(now), checkpoint.path().string(), excerpt(saved),
                     now == DType::f32    ? "converted"
                     : now == DType::bf16 ? "rounded to nearest"
                                          : "encoded in 8 bits"));
}

/// Throws if the data has another tokenizer than the saved one. Warns if data.tokenizer names it:
/// some users do that on purpose, to give unused tokens a meaning.
void check_tokenizer(const RunConfig& config, const Trainer& trainer, const Checkpoint& checkpoint,
                     const std::function<void(std::string)>& report) {
  const Tokenizer* now = trainer.tokenizer();
  if (now == nullptr || !checkpoint.has_attachment(kTokenizerAttachment)) return;
  if (checkpoint.attachment(kTokenizerAttachment) == tokenizer_attachment(*now)) return;
  const std::string path = checkpoint.path().string();
  const std::unique_ptr<Tokenizer> saved = tokenizer_of(checkpoint);
  const auto* saved_ids = dynamic_cast<const IdTokenizer*>(saved.get());
  const auto* ids = dynamic_cast<const IdTokenizer*>(now);
  if (ids != nullptr && saved_ids != nullptr) {
    const bool not_known = saved_ids->special_ids().empty();  // when it was imported
    if (not_known || ids->special_ids() == saved_ids->special_ids()) return;
    return report(fmt::format(
        "data.special_tokens is {}, but {} has {}: ids mean something else from here on",
        SpecialTokenMap{}.write(ids->special_ids()), path,
        SpecialTokenMap{}.write(saved_ids->special_ids())));
  }
  if (ids != nullptr) {
    return report(fmt::format(
        "data.tokenizer is none, but {} has a tokenizer, {}: from here on checkpoints have none",
        path, to_string(identity_of(*saved))));
  }
  const std::string other =
      fmt::format("({}), which is not the tokenizer stored in {} ({})",
                  to_string(identity_of(*now)), path, to_string(identity_of(*saved)));
  require(!config.data.tokenizer.empty(),
          "data.tokenizer is auto, the one that data.train was prepared with {}: prepare the text "
          "again with --tokenizer tessera:{}, or, if tokens are to mean something else from here "
          "on, set data.tokenizer to the new one",
          other, path);
  report(fmt::format("data.tokenizer is {} {}: tokens may mean other words from here on",
                     config.data.tokenizer, other));
}

void check_resume_never(const RunConfig& config) {
  if (config.checkpoint.resume != ResumeMode::never) return;
  const auto steps = step_folders(checkpoints_folder(config.run.dir));
  require(steps.empty(),
          "run.dir {} holds {}, and checkpoint.resume is never: nothing was overwritten; choose "
          "another run.dir, or checkpoint.resume=auto to resume from it",
          config.run.dir, steps.empty() ? "" : steps.front().path.filename().string());
}

/// Throws if a run that found no intact checkpoint must not start from scratch, because it would
/// overwrite existing checkpoints or one is required.
void check_new_start(const RunConfig& config) {
  const auto checkpoints = checkpoints_folder(config.run.dir);
  const size_t damaged = step_folders(checkpoints).size();
  require(damaged == 0,
          "{} holds {} checkpoint{}, all damaged: nothing was overwritten; choose another run.dir, "
          "or move the damaged ones away to start over",
          checkpoints.string(), damaged, damaged == 1 ? "" : "s");
  require(config.checkpoint.resume != ResumeMode::required,
          "checkpoint.resume is required, but there is no checkpoint in {}: check run.dir, or "
          "start a new run with checkpoint.resume=auto",
          checkpoints.string());
}

}  // namespace

void make_run_folder(const RunConfig& config) {
  const std::string& dir = config.run.dir;
  std::error_code error;
  require(!fs::exists(dir, error) || fs::is_directory(dir, error),
          "run.dir {} is a file, but must be a folder, new or of this run", dir);
  fs::create_directories(dir, error);
  require(!error, "run.dir {} cannot be created: {}", dir, error.message());
  const bool is_writable = ::access(dir.c_str(), W_OK | X_OK) == 0;
  require(is_writable, "run.dir {} cannot be written: {}", dir, system_message(errno));
}

void write_run_config(const RunConfig& config, const KeyOrigins& origins) {
  const fs::path run = config.run.dir;
  // Before its first start, a run has none, and the user's may be there.
  const bool has_begun = fs::exists(run / "metrics.jsonl") || fs::exists(checkpoints_folder(run));
  const Replace replace = has_begun ? Replace::own : Replace::overwrite;
  const std::string path = run / "config.yaml";
  require(has_begun || !is_input(path),
          "{} is the configuration of this start, and the first start of a run does not replace "
          "it: move it out of run.dir, and start with it there",
          path);
  write_whole_files({{path, to_yaml(config, origins)}}, replace);
}

std::string start_or_resume(const RunConfig& config, Trainer& trainer, Communicator& world,
                            const std::function<void(std::string)>& report,
                            std::optional<int64_t> before_step) {
  if (!before_step) {
    all_or_none(world, [&] {
      with_exit_code(ExitCode::configuration, [&] { check_resume_never(config); });
    });
  }
  const std::optional<fs::path> newest =
      newest_intact_checkpoint(config.run.dir, report, world, before_step.value_or(INT64_MAX));
  if (!newest && !before_step) {
    all_or_none(world, [&] { with_exit_code(ExitCode::data, [&] { check_new_start(config); }); });
  }
  // Only one rank searches: another run may save into that folder meanwhile.
  std::optional<fs::path> from;
  if (!newest && config.checkpoint.from) {
    from = resolve_checkpoint(*config.checkpoint.from, world, report);
  }
  std::string what;
  all_or_none(world, [&] {
    with_exit_code(ExitCode::data, [&] {
      if (const auto& state = config.checkpoint.from_state && from ? from : newest) {
        Checkpoint checkpoint = open_of_same_model(config, *state);
        if (from) require_state(checkpoint, before_step);
        trainer.restore(checkpoint);
        if (world.rank() == 0) {
          report_other_order(config, trainer, read_run_state(checkpoint.manifest()), report);
          report_other_moments(config, checkpoint, report);
          report_other_versions(trainer, checkpoint, read_run_state(checkpoint.manifest()), report);
          check_tokenizer(config, trainer, checkpoint, report);
          report_other_average(config, checkpoint, report);
        }
        what = has_weights_alone(checkpoint)
                   ? fmt::format("started with the weights of {}", state->string())
                   : fmt::format("{} {} (step {}, {} samples seen)",
                                 from ? "continues the run of" : "resumed from", state->string(),
                                 trainer.steps_done(), trainer.samples_done());
      } else if (from) {
        Checkpoint checkpoint = open_of_same_body(config, *from);
        const std::string heads = trainer.start_from(checkpoint);
        if (world.rank() == 0) check_tokenizer(config, trainer, checkpoint, report);
        what = fmt::format("started with the weights of {}{}{}", from->string(),
                           heads.empty() ? "" : "; ", heads);
      } else {
        trainer.initialize();
        what = fmt::format("started with new weights, seed {}", config.run.seed);
      }
    });
  });
  return what;
}

}  // namespace tessera
