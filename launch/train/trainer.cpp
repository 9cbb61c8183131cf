#include "launch/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
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

}  // namespace

Trainer::Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data)
    : config_(config),
      groups_(groups),
      model_(config.model, store_, *groups.tp),
      memory_(plan_memory(config.model, config.run.precision, config.batch.micro,
                          local_batch(config, groups), *groups.tp)),
      arena_(kCpu, memory_.arena_bytes),
      batches_(data.train, data.eval, static_cast<uint64_t>(config.run.seed),
               batch_layout(config, groups)),
      has_eval_(data.eval != nullptr),
      tokenizer_(data.tokenizer),
      tokens_({local_batch(config, groups), config.model.seq_length}, DType::i32),
      targets_(tokens_.tensor.shape(), DType::i32),
      loss_sum_({1}, DType::f64) {
  store_.allocate(kCpu, config.run.precision, StoreFor::training);
  reducer_ = std::make_unique<GradientReducer>(store_, *groups.dp);
  optimizer_ = std::make_unique<Optimizer>(config.optimizer, store_);
}

void Trainer::initialize() {
  store_.initialize(static_cast<uint64_t>(config_.run.seed));
  steps_done_ = 0;
  samples_ = 0;
}

void Trainer::restore(Checkpoint& checkpoint) {
  load_training_state(checkpoint, store_);
  steps_done_ = checkpoint.manifest().step;
  samples_ = checkpoint.manifest().samples;
}

void Trainer::start_from(Checkpoint& checkpoint) {
  load_weights(checkpoint, store_);
  steps_done_ = 0;
  samples_ = 0;
}

StepResult Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  const int64_t micro_batches = batches_.num_micro_batches();
  load_batch([&](int64_t micro, const Tensor& tokens, const Tensor& targets) {
    batches_.load_train(samples_, micro, tokens, targets);
  });
  const int64_t targets = count_targets();
  const float scale = 1.0f / static_cast<float>(std::max<int64_t>(targets, 1));

  store_.zero_grads();
  fill(loss_sum_.tensor, 0.0);
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    arena_.reset();
    model_.train(context(micro, /*training=*/true), micro_rows(tokens_, micro),
                 micro_rows(targets_, micro), scale, loss_sum_.tensor);
  }
  reducer_->finalize();

  const double loss = mean_loss(targets);
  const double norm = gradient_norm(store_, *groups_.tp);
  require_finite(loss, "loss");
  require_finite(norm, "gradient norm");
  const double clip = config_.optimizer.grad_clip;
  const double grad_scale = clip > 0.0 && norm > clip ? clip / norm : 1.0;
  const double lr = learning_rate(config_.optimizer, steps_done_, config_.train.steps);
  optimizer_->step(steps_done_, lr, grad_scale);

  ++steps_done_;
  samples_ += config_.batch.global;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const int64_t tokens = config_.batch.global * config_.model.seq_length;
  return {steps_done_, loss, norm, lr, tokens, elapsed.count()};
}

double Trainer::evaluate() {
  require(has_eval_, "there is no eval data: set data.eval or data.eval_fraction");
  const int64_t batches = std::min(config_.eval.batches, batches_.num_eval_batches());
  fill(loss_sum_.tensor, 0.0);
  int64_t targets = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    load_batch([&](int64_t micro, const Tensor& tokens, const Tensor& wanted) {
      batches_.load_eval(batch, micro, tokens, wanted);
    });
    for (int64_t micro = 0; micro < batches_.num_micro_batches(); ++micro) {
      arena_.reset();
      model_.evaluate(context(micro, /*training=*/false), micro_rows(tokens_, micro),
                      micro_rows(targets_, micro), loss_sum_.tensor);
    }
    targets += count_targets();
  }
  return mean_loss(targets);
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
                   {"train_samples", batches_.num_train_samples()}};
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
    for (int64_t micro = 0; micro < batches_.num_micro_batches(); ++micro) {
      load(micro, micro_rows(tokens_, micro), micro_rows(targets_, micro));
    }
  });
}

int64_t Trainer::count_targets() {
  const auto targets = targets_.tensor.span<int32_t>();
  int64_t count = std::count_if(targets.begin(), targets.end(),
                                [](int32_t target) { return target != kIgnoreTarget; });
  groups_.dp->all_reduce(Tensor(&count, {1}, DType::i64, kCpu));
  return count;
}

double Trainer::mean_loss(int64_t targets) {
  groups_.dp->all_reduce(loss_sum_.tensor);
  return targets == 0 ? 0.0 : loss_sum_.tensor.span<double>()[0] / static_cast<double>(targets);
}

Tensor Trainer::micro_rows(const OwnedTensor& batch, int64_t micro) const {
  return batch.tensor.slice(micro * config_.batch.micro, (micro + 1) * config_.batch.micro);
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
