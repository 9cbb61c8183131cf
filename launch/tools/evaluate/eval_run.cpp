#include "launch/tools/evaluate/eval_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/label_names.h"
#include "launch/config/load_config.h"
#include "launch/config/validate_kind.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/sample_source.h"
#include "launch/data/training_data.h"
#include "launch/devices/opened_ranks.h"
#include "launch/support/files/folders.h"
#include "launch/tools/evaluate/eval_dump.h"
#include "launch/tools/evaluate/eval_model.h"
#include "launch/tools/evaluate/eval_progress.h"
#include "launch/tools/predict/text_model.h"
#include "launch/train/evaluation_pass.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The config of the run that contains the step's folder, if any; it defines how samples are made.
std::optional<fs::path> config_beside(const fs::path& step_folder) {
  const fs::path path = fs::absolute(step_folder).parent_path().parent_path() / "config.yaml";
  return fs::exists(path) ? std::optional(path) : std::nullopt;
}

/// Refuses keys without effect instead of ignoring them.
void check_overrides(const EvalOptions& options) {
  for (const std::string& text : options.overrides) {
    const std::string key = text.substr(0, text.find('='));
    const bool of_samples = key.starts_with("data.") || key.starts_with("mlm.");
    require(
        (of_samples && key != "data.tokenizer" && key != "data.labels") || key == "run.seed",
        "--set {}: an evaluation accepts only run.seed and the keys of data and mlm, which define "
        "the samples; model, tokenizer and labels come from the checkpoint",
        text);
  }
}

/// The config that defines how samples are made. Model and labels are the checkpoint's, whatever
/// the config says.
RunConfig config_of(const EvalOptions& options, const Checkpoint& checkpoint) {
  check_overrides(options);
  std::optional<fs::path> path = config_beside(checkpoint.path());
  if (options.config) path = *options.config;
  require(path || options.data,
          "{} is not in the folder of a run with a config.yaml, so what to evaluate on is unknown: "
          "pass --data or --config",
          checkpoint.path().string());
  RunConfig config =
      path ? load_config(*path, options.overrides) : load_overrides(options.overrides);
  config.model = model_of(checkpoint);
  config.data.labels = std::nullopt;
  config.data.chat_form = checkpoint_chat(checkpoint);
  const std::vector<std::string> labels =
      names_of_labels(read_run_state(checkpoint.manifest()).labels);
  if (!labels.empty()) config.data.labels = fmt::format("{}", fmt::join(labels, ","));
  config.data.packing = packing_of(config);
  config.automatic.clear();  // the rest is of what the checkpoint determines
  check_kind(config);
  return config;
}

/// Sets `data` as the run's evaluation data. How it is packed follows the run's own data.
RunConfig with_data(RunConfig config, const std::optional<std::string>& data) {
  if (!data) return config;
  config.data.eval = DataBlend(*data);
  config.data.eval_fraction = 0.0;
  return config;
}

/// One rank's evaluation.
class EvalRun {
 public:
  EvalRun(const EvalOptions& options, const ParallelGroups& groups, const fs::path& path,
          Device device)
      : options_(options), groups_(groups), device_(device) {
    report_.checkpoint = path;
    all_or_none(groups.world, [&] { open(); });
  }

  EvalReport run() {
    EvalDump dump;
    EvalProgress progress(groups_.world.rank() == 0, batches_->num_eval_batches());
    const EvaluationPass pass = {config_.model,
                                 model_->model(),
                                 model_->arena(),
                                 groups_,
                                 *prefetched_,
                                 model_->device_batch(),
                                 {},
                                 names_of_labels(config_.data.labels),
                                 datasets_,
                                 TokenBytes(*tokenizer_)};
    report_.found = evaluate(pass, batches_->num_eval_batches(), [&](const TokenBatch& batch) {
      if (options_.dump) dump.add(batch);
      progress.add_batch();
    });
    progress.clear();
    if (options_.dump) dump.write(*options_.dump, report_.found.losses);
    report_.seconds = progress.seconds();
    return report_;
  }

 private:
  void open() {
    require(!options_.dump || !fs::exists(*options_.dump),
            "--dump {}: exists and is not overwritten: choose another name",
            options_.dump.value_or(""));
    if (options_.dump) create_folder_of(*options_.dump);
    Checkpoint checkpoint = Checkpoint::open(report_.checkpoint);
    if (options_.ema) checkpoint.use_average();
    report_.ema = options_.ema;
    report_.precision = options_.precision;
    report_.step = checkpoint.manifest().step;
    config_ = with_data(config_of(options_, checkpoint), options_.data);
    const ModelTraits traits = traits_of(config_.model);
    report_.predicts_masked = traits.objective == Objective::masked_lm;
    report_.token_labels = traits.token_labels;
    report_.label_names = names_of_labels(config_.data.labels);
    report_.compares_texts = traits.objective == Objective::embedding;
    tokenizer_ = tokenizer_of(checkpoint);
    auto [samples, datasets, notes] =
        open_part(config_, tokenizer_, options_.part, options_.max_samples);
    datasets_ = std::move(datasets);
    report_.notes = std::move(notes);
    report_.samples = samples->num_samples();
    const int64_t micro = options_.micro_batch;
    const BatchShape shape = batch_shape(micro, config_.model, config_.mlm);
    model_ = std::make_unique<EvalModel>(checkpoint, config_.model, shape, *groups_.tp, device_,
                                         options_.precision);
    const BatchLayout layout = {micro * groups_.dp->size(), micro, groups_.dp->rank(),
                                groups_.dp->size()};
    batches_ = std::make_unique<TokenBatches>(nullptr, samples, config_.model.vocab_size,
                                              static_cast<uint64_t>(config_.run.seed), layout);
    prefetched_ = std::make_unique<PrefetchedEvaluation>(*batches_, shape, device_);
  }

  const EvalOptions& options_;
  const ParallelGroups& groups_;
  Device device_;
  EvalReport report_;
  RunConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<EvalDataset> datasets_;
  std::unique_ptr<EvalModel> model_;
  std::unique_ptr<TokenBatches> batches_;
  std::unique_ptr<PrefetchedEvaluation> prefetched_;
};

}  // namespace

void check_files(const EvalOptions& options) {
  const bool asks = !options.multiple_choice.empty(), scores = options.log_likelihoods.has_value();
  require(!options.log_samples || asks || scores,
          "--log-samples writes the answers to questions or the scores of texts, but no file has "
          "any: add --multiple-choice or --log-likelihoods");
  require(!asks || !scores,
          "--multiple-choice and --log-likelihoods are both given: choose one, because "
          "--log-samples writes the lines of one");
  require(!scores || options.log_samples,
          "--log-likelihoods scores the texts of a file, but where to write the scores is unknown: "
          "add --log-samples");
  if (!asks && !scores) return;
  const bool of_data = options.data || options.part != DataPart::eval || options.config ||
                       !options.overrides.empty() || options.max_samples || options.dump;
  require(!of_data,
          "{} instead of evaluating data, so --data, --part, --config, --set, --max-samples and "
          "--dump have no effect: leave them out",
          asks ? "--multiple-choice answers questions" : "--log-likelihoods scores texts");
}

EvalReport run_eval(const EvalOptions& options, Communicator& world) {
  const fs::path path = resolve_checkpoint(options.checkpoint, world);
  const GridShape shape = shape_of_option(options.tensor, world);
  all_or_none(world, [&] {
    require(!options.dump || world.size() == 1,
            "--dump writes what one rank evaluated, but {} ranks were started: start one",
            world.size());
    require(!options.data || options.part == DataPart::eval,
            "--part selects a part of the configuration's data, but all of --data is evaluated: "
            "leave one of them out");
  });
  const MemoryUse use("", kEvalMemoryAdvice);
  const OpenedRanks ranks(options.devices, shape, world);
  return EvalRun(options, ranks.groups, path, ranks.devices.device).run();
}

}  // namespace tessera
