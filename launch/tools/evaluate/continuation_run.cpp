#include "launch/tools/evaluate/continuation_run.h"

#include <fmt/format.h>

#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/replace.h"
#include "launch/support/same_on_ranks.h"
#include "launch/tools/evaluate/eval_progress.h"
#include "launch/train/dry_run.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

ContinuationRun::ContinuationRun(const EvalOptions& options, const ParallelGroups& groups,
                                 const std::filesystem::path& checkpoint, TextModel& model,
                                 const OpenFiles& open_files)
    : options_(options), groups_(groups), model_(model) {
  report_.checkpoint = checkpoint;
  all_or_none(groups.world, [&] { open(open_files); });
  std::vector<NamedValue> identity;
  for (const auto& file : files_) {
    identity.push_back({fmt::format("the content of {}", file->path()), file->identity()});
  }
  require_same_on_ranks(groups.world, identity, "Give all hosts the same files");
}

EvalReport ContinuationRun::run(
    const std::function<std::string(size_t file, const ContinuationScores& scores)>& use) {
  int64_t rounds = 0;
  for (const TokenBatches& batches : batches_) rounds += batches.num_eval_batches();
  EvalProgress progress(groups_.world.rank() == 0, rounds);
  const EvaluationPass pass = {config_, model_.model(), *arena_,
                               groups_, *prefetched_,   *device_batch_};
  for (size_t i = 0; i < files_.size(); ++i) {
    const ContinuationScores scores =
        score_continuations(pass, batches_[i], *files_[i], [&] { progress.add_batch(); });
    all_or_none(groups_.world, [&] {
      const std::string lines = use(i, scores);
      if (log_) log_->write(lines);
    });
  }
  progress.clear();
  all_or_none(groups_.world, [&] {
    if (!log_) return;
    log_->close();
    log_->publish();
  });
  report_.seconds = progress.seconds();
  return report_;
}

void ContinuationRun::open(const OpenFiles& open_files) {
  const Checkpoint checkpoint = Checkpoint::open(report_.checkpoint);
  report_.ema = options_.ema;
  report_.precision = options_.precision;
  report_.step = checkpoint.manifest().step;
  config_ = model_.config();
  files_ = open_files(checkpoint, *tokenizer_of(checkpoint), config_);
  const BatchShape shape = batch_shape(options_.micro_batch, traits_of(config_));
  for (const auto& file : files_) {
    batches_.push_back(continuation_batches(file, config_, shape.sequences, *groups_.dp));
  }
  const Device device = model_.device();
  arena_.emplace(device, plan_evaluation_arena(config_, DType::f32, shape.sequences, *groups_.tp));
  device_batch_.emplace(shape, device);
  prefetched_ = std::make_unique<PrefetchedEvaluation>(batches_.front(), shape, device);
  if (!options_.log_samples || groups_.world.rank() != 0) return;
  create_folder_of(*options_.log_samples);
  log_ = std::make_unique<StagedFile>(*options_.log_samples, replace_if(options_.overwrite));
}

}  // namespace tessera
