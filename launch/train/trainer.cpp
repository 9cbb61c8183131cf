#include "launch/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/tokenizer/checkpoint_tokenizer.h"
#include "launch/train/lr_schedule.h"
#include "launch/train/model_json.h"
#include "launch/train/model_state.h"
#include "parallel/exchange.h"
#include "parallel/gradient_norm.h"

namespace tessera {
namespace {

int64_t local_batch(const RunConfig& config, const ParallelGroups& groups) {
  return div_exact(config.batch.global, groups.dp->size(), "batch.global", "the data ranks");
}

BatchLayout batch_layout(const RunConfig& config, const ParallelGroups& groups) {
  return {config.batch.global, config.batch.micro, groups.dp->rank(), groups.dp->size()};
}

/// 0 where there is nothing to take a mean over.
float one_over(int64_t count) { return count == 0 ? 0.0f : 1.0f / static_cast<float>(count); }

/// In a checkpoint's extra data: the tokens of the run so far, without padding.
constexpr const char* kTokensKey = "tokens";

}  // namespace

Trainer::Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data)
    : config_(config),
      groups_(groups),
      model_(make_model(config.model, store_, *groups.tp)),
      memory_(plan_memory(config.model, config.run.precision, config.batch.micro,
                          local_batch(config, groups), *groups.tp)),
      arena_(kCpu, memory_.arena_bytes),
      batches_(data.train, data.eval, config.model.vocab_size,
               static_cast<uint64_t>(config.run.seed), batch_layout(config, groups)),
      has_eval_(data.eval != nullptr),
      tokenizer_(data.tokenizer),
      sums_({LossSums::kCount}, DType::f64) {
  for (int64_t micro = 0; micro < batches_.num_micro_batches(); ++micro) {
    buffers_.emplace_back(config.batch.micro, config.model.seq_length);
  }
  loaded_.resize(buffers_.size());
  store_.allocate(kCpu, config.run.precision, StoreFor::training);
  reducer_ = std::make_unique<GradientReducer>(store_, *groups.dp);
  optimizer_ = std::make_unique<Optimizer>(config.optimizer, store_);
}

void Trainer::initialize() {
  store_.initialize(static_cast<uint64_t>(config_.run.seed));
  steps_done_ = samples_ = tokens_ = 0;
}

void Trainer::restore(Checkpoint& checkpoint) {
  load_training_state(checkpoint, store_);
  steps_done_ = checkpoint.manifest().step;
  samples_ = checkpoint.manifest().samples;
  const Json& extra = checkpoint.manifest().extra;
  const bool counted = extra.contains(kTokensKey) && extra[kTokensKey].is_number_integer();
  tokens_ = counted ? extra[kTokensKey].get<int64_t>() : samples_ * config_.model.seq_length;
}

std::string Trainer::start_from(Checkpoint& checkpoint) {
  initialize();
  return load_matching_weights(checkpoint, store_);
}

StepResult Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  load_batch([&](int64_t micro, BatchBuffers& buffers) {
    return batches_.load_train(samples_, micro, buffers);
  });
  const TargetCounts counts = count_targets();
  const LossScale scale = {one_over(counts.token_targets), one_over(counts.document_targets)};

  store_.zero_grads();
  fill(sums_.tensor, 0.0);
  for (size_t micro = 0; micro < loaded_.size(); ++micro) {
    arena_.reset();
    model_->train(context(static_cast<int64_t>(micro), /*training=*/true), loaded_[micro], scale,
                  {sums_.tensor});
  }
  reducer_->finalize();

  const Losses losses = mean_losses(counts);
  const double norm = gradient_norm(store_, *groups_.tp);
  require_finite(losses.total(), "loss");
  require_finite(norm, "gradient norm");
  const double clip = config_.optimizer.grad_clip;
  const double grad_scale = clip > 0.0 && norm > clip ? clip / norm : 1.0;
  const double lr = learning_rate(config_.optimizer, steps_done_, config_.train.steps);
  optimizer_->step(steps_done_, lr, grad_scale);

  ++steps_done_;
  samples_ += config_.batch.global;
  tokens_ += counts.tokens;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const int64_t padded_tokens = config_.batch.global * config_.model.seq_length;
  return {steps_done_, losses, norm, lr, counts.tokens, padded_tokens, elapsed.count()};
}

Evaluation Trainer::evaluate() {
  require(has_eval_, "there is no eval data: set data.eval or data.eval_fraction");
  const int64_t batches = std::min(config_.eval.batches, batches_.num_eval_batches());
  const bool classifies = config_.model.head == Head::classification;
  EvaluationCounts found(config_.model.vocab_size, classifies ? config_.model.num_labels : 0);
  TargetCounts counts;
  fill(sums_.tensor, 0.0);
  for (int64_t batch = 0; batch < batches; ++batch) {
    load_batch([&](int64_t micro, BatchBuffers& buffers) {
      return batches_.load_eval(batch, micro, buffers);
    });
    for (size_t micro = 0; micro < loaded_.size(); ++micro) {
      arena_.reset();
      Tensor predictions;
      if (classifies) {
        predictions = arena_.allocate({loaded_[micro].num_documents()}, DType::i32);
      }
      model_->evaluate(context(static_cast<int64_t>(micro), /*training=*/false), loaded_[micro],
                       {sums_.tensor}, predictions);
      found.add(loaded_[micro], predictions);
    }
    counts.add(count_targets());
  }
  groups_.dp->all_reduce(sums_.tensor);
  return found.finish({sums_.tensor}, counts, *groups_.dp);
}

SavedCheckpoint Trainer::save(const SaveObserver& observer) {
  // A checkpoint that can not go on must not push out one that can.
  all_or_none(groups_.world, [&] {
    try {
      require_finite_weights(store_);
    } catch (const Error& error) {
      fail(
          "after step {}, {}: no checkpoint is saved, earlier ones are as they were; resume from "
          "one with a smaller optimizer.lr",
          steps_done_, error.what());
    }
  });
  SaveRequest request;
  request.run_dir = config_.run.dir;
  request.step = steps_done_;
  request.samples = samples_;
  request.model = architecture_json(config_.model);
  request.extra = {{"tokenizer", config_.data.tokenizer},
                   {"seed", config_.run.seed},
                   {"train_samples", batches_.num_train_samples()},
                   {kTokensKey, tokens_}};
  if (config_.data.labels) request.extra["labels"] = *config_.data.labels;
  if (tokenizer_) request.attachments = {{kTokenizerAttachment, tokenizer_attachment(*tokenizer_)}};
  request.tensors = held_tensors(store_);
  request.keep = narrow<int>(config_.checkpoint.keep);
  request.observer = observer;
  return save_checkpoint(request, groups_.world);
}

StepContext Trainer::context(int64_t micro, bool training) {
  StepContext ctx{arena_};
  const bool last = micro + 1 == batches_.num_micro_batches();
  ctx.reducer = training && last ? reducer_.get() : nullptr;
  ctx.training = training;
  ctx.seed = static_cast<uint64_t>(config_.run.seed);
  ctx.step = narrow<uint32_t>(steps_done_);
  ctx.first_sequence = batches_.global_rows(micro).begin;
  return ctx;
}

// Each data rank reads other samples, so that one alone may meet a damaged one.
void Trainer::load_batch(const LoadMicroBatch& load) {
  all_or_none(groups_.world, [&] {
    for (size_t micro = 0; micro < buffers_.size(); ++micro) {
      loaded_[micro] = load(static_cast<int64_t>(micro), buffers_[micro]);
    }
  });
}

TargetCounts Trainer::count_targets() {
  TargetCounts counts;
  for (const TokenBatch& batch : loaded_) counts.add(batch);
  counts.all_reduce(*groups_.dp);
  return counts;
}

Losses Trainer::mean_losses(const TargetCounts& counts) {
  groups_.dp->all_reduce(sums_.tensor);
  return tessera::mean_losses({sums_.tensor}, counts);
}

// Loss and norm are the same on all ranks.
void Trainer::require_finite(double value, const char* what) const {
  if (std::isfinite(value)) return;
  throw SharedError(
      fmt::format("the {} of step {} is {}: training stops before it changes a weight. Checkpoints "
                  "are as they were; resume from an earlier step with a smaller optimizer.lr, or "
                  "with optimizer.grad_clip",
                  what, steps_done_ + 1, std::isnan(value) ? "NaN" : "infinite"));
}

}  // namespace tessera
