#include "launch/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/trace.h"
#include "launch/checkpoint/checkpoint_labels.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/model_state.h"
#include "launch/config/source_text.h"
#include "launch/metrics/model_flops.h"
#include "launch/train/evaluation_pass.h"
#include "launch/train/memory/device_room.h"
#include "launch/train/optimizer/lr_schedule.h"
#include "launch/train/run_layout.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

BatchLayout batch_layout(const RunConfig& config, const ParallelGroups& groups) {
  return {config.batch.global, config.batch.micro, groups.dp->rank(), groups.dp->size()};
}

/// Throws if a GPU with so much free memory has no room for it.
MemoryPlan plan_for(const RunConfig& config, const ParallelGroups& groups, Device device,
                    size_t free_bytes) {
  const auto plan_for_micro = [&](int64_t micro_batch) {
    RunConfig smaller = config;
    smaller.batch.micro = micro_batch;
    return plan_memory(smaller, groups, device);
  };
  MemoryPlan plan = plan_for_micro(config.batch.micro);
  if (device.is_cuda()) {
    const std::string why = why_no_room(plan, free_bytes, config.batch.micro, plan_for_micro);
    require(why.empty(), "{}: {}", to_string(device), why);
  }
  return plan;
}

/// 0 where there is nothing to take a mean over.
float one_over(int64_t count) { return count == 0 ? 0.0f : 1.0f / static_cast<float>(count); }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// In a checkpoint's extra data: the tokens of the run so far, without padding.
constexpr const char* kTokensKey = "tokens";

}  // namespace

Trainer::Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data,
                 Device device, size_t free_bytes)
    : config_(config),
      groups_(groups),
      rows_(row_split(config, groups)),
      model_(std::make_unique<Model>(config.model, store_, *groups.tp)),
      memory_(plan_for(config, groups, device, free_bytes)),
      arena_(device, memory_.arena_bytes),
      batches_(data.train, data.eval, config.model.vocab_size,
               static_cast<uint64_t>(config.run.seed), batch_layout(config, groups)),
      train_parts_(data.train_parts),
      has_eval_(data.eval != nullptr),
      tokenizer_(data.tokenizer),
      prefetched_(batches_, config.batch.micro, config.model.seq_length, device),
      eval_batches_(batches_, config.batch.micro, config.model.seq_length, device),
      device_batch_(config.batch.micro, config.model.seq_length, device),
      micro_steps_(*model_, *groups.tp, device, why_no_cuda_graph(config, device, groups).empty()),
      background_save_(groups.world) {
  store_.allocate(device, config.run.precision, StoreFor::training, flat_cut(config, groups));
  update_ = std::make_unique<WeightUpdate>(config, store_, groups);
  sums_ = OwnedTensor({LossSums::kCount}, DType::f64, store_.device());
  if (copies_checkpoints(config)) {
    background_save_.reserve(checkpoint_copy_bytes(store_, groups.dp->size()), device);
  }
}

void Trainer::initialize() {
  load_first_step(0, 0);
  store_.initialize(static_cast<uint64_t>(config_.run.seed));
  start_at(0, 0, 0);
}

void Trainer::restore(Checkpoint& checkpoint) {
  const int64_t samples = checkpoint.manifest().samples;
  load_first_step(checkpoint.manifest().step, samples);
  load_training_state(checkpoint, store_);
  const Json& extra = checkpoint.manifest().extra;
  const bool counted = extra.contains(kTokensKey) && extra[kTokensKey].is_number_integer();
  start_at(checkpoint.manifest().step, samples,
           counted ? extra[kTokensKey].get<int64_t>() : samples * config_.model.seq_length);
}

std::string Trainer::start_from(Checkpoint& checkpoint) {
  initialize();
  const Json& extra = checkpoint.manifest().extra;
  const bool other_labels = has_other_labels(extra, config_.data.labels);
  std::string heads = load_matching_weights(checkpoint, store_, other_labels);
  if (other_labels) {
    heads += fmt::format("; the checkpoint's labels are {}, and data.labels is {}",
                         excerpt(to_text(extra[kLabelsKey]), 200), quote(*config_.data.labels));
  }
  return heads;
}

void Trainer::start_at(int64_t step, int64_t samples, int64_t tokens) {
  steps_done_ = step;
  samples_ = samples;
  tokens_ = tokens;
  values_are_rounded_ = false;
  update_->clip().reset();
  unasked_ = {};
}

void Trainer::load_first_step(int64_t step, int64_t samples) {
  if (step < config_.train.steps) prefetched_.begin_at(samples);
}

std::vector<MemoryPlan::Line> Trainer::memory_in_use() const {
  return {{"weights", store_.value_bytes()},
          {"gradients", store_.grad_bytes()},
          {"master weights", store_.master_bytes()},
          {"AdamW moments", store_.moment_bytes()},
          {"activations", arena_.peak()},
          {"micro-batch", device_batch_.bytes()},
          {kCheckpointCopyLine, background_save_.copy_bytes(), /*in_host=*/true},
          {"batch", prefetched_.bytes() + eval_batches_.bytes(), /*in_host=*/true}};
}

// Not where masters are read, which one rank alone may fail to.
void Trainer::round_values() {
  if (!values_are_rounded_) update_->round_values(steps_done_);
  values_are_rounded_ = true;
}

void Trainer::step() {
  if (unasked_.steps == 0) unasked_.start = std::chrono::steady_clock::now();
  counts_ = load_batch();
  round_values();
  const LossWeights scale = {one_over(counts_.token_targets), one_over(counts_.document_targets)};
  const LossSums sums{sums_.tensor};

  // A graph always adds: it is recorded once for the first micro-batch and all others.
  if (micro_steps_.use_graphs()) {
    store_.zero_grads();
  } else {
    store_.forget_grads();
  }
  fill(sums.values, 0.0);
  std::vector<BatchBuffers>& loaded = prefetched_.current();
  for (size_t micro = 0; micro < loaded.size(); ++micro) {
    arena_.reset();
    const TokenBatch batch = device_batch_.upload(loaded[micro]);
    micro_steps_.run(context(static_cast<int64_t>(micro)), batch, scale, sums);
  }
  arena_.reset();
  for (const Parameter& parameter : store_.parameters()) {
    require(!parameter.grad_is_forgotten, "no layer's backward pass gave {} a gradient",
            parameter.name);
  }
  update_->sum(sums, arena_);
  const double lr = learning_rate(config_.optimizer, steps_done_, config_.train.steps);
  update_->apply(steps_done_, lr, sums);

  ++steps_done_;
  samples_ += config_.batch.global;
  tokens_ += counts_.tokens;
  ++unasked_.steps;
  unasked_.tokens += counts_.tokens;
  unasked_.flops += model_flops(config_.model, counts_);
}

StepResult Trainer::result() {
  require_finite_steps();
  return peek();
}

StepResult Trainer::peek() {
  require(unasked_.steps > 0, "there is no result: no step was taken since the last one");
  const StepRecord& record = update_->clip().record();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - unasked_.start;
  StepResult result;
  result.step = steps_done_;
  result.losses = mean_losses({record.losses()}, counts_);
  result.grad_norm = record.norm().span<double>()[0];
  result.lr = learning_rate(config_.optimizer, steps_done_ - 1, config_.train.steps);
  result.steps = unasked_.steps;
  result.tokens = unasked_.tokens;
  result.padded_tokens = unasked_.steps * config_.batch.global * config_.model.seq_length;
  result.flops = unasked_.flops;
  result.seconds = elapsed.count();
  result.data_wait_seconds = unasked_.data_wait_seconds;
  result.note = micro_steps_.take_note();
  unasked_ = {};
  return result;
}

Evaluation Trainer::evaluate() {
  require(has_eval_, "there is no eval data: set data.eval or data.eval_fraction");
  require_finite_steps();
  round_values();
  return tessera::evaluate(
      {config_.model, *model_, arena_, groups_, eval_batches_, device_batch_, rows_},
      std::min(config_.eval.batches, batches_.num_eval_batches()));
}

SavedCheckpoint Trainer::save(const SaveObserver& observer) {
  require(!saving(), "a checkpoint is being saved in the background: finish_save() comes first");
  const auto start = std::chrono::steady_clock::now();
  SavedCheckpoint saved = save_checkpoint(save_request(observer), groups_.world);
  saved.seconds = seconds_since(start);
  return saved;
}

void Trainer::begin_save(const SaveObserver& observer) {
  const auto start = std::chrono::steady_clock::now();
  background_save_.begin(save_request(observer), start);
}

SaveRequest Trainer::save_request(const SaveObserver& observer) {
  require_finite_steps();
  // A checkpoint that can not go on must not push out one that can.
  all_or_none(groups_.world, [&] {
    const std::string name = not_finite_parameter(store_);
    require(
        name.empty(),
        "after step {}, a weight of {} is NaN or infinite: no checkpoint is saved, earlier ones "
        "are as they were; resume from one with a smaller optimizer.lr",
        steps_done_, name);
  });
  SaveRequest request;
  request.run_dir = config_.run.dir;
  request.step = steps_done_;
  request.samples = samples_;
  request.model = architecture_json(config_.model);
  request.extra = {{"tokenizer", config_.data.tokenizer},
                   {"seed", config_.run.seed},
                   {"train_samples", batches_.num_train_samples()},
                   {kTrainPartsKey, train_parts_json(train_parts_)},
                   {kTokensKey, tokens_}};
  if (config_.data.labels) request.extra[kLabelsKey] = *config_.data.labels;
  if (tokenizer_) request.attachments = {{kTokenizerAttachment, tokenizer_attachment(*tokenizer_)}};
  request.tensors = held_tensors(store_);
  request.keep = narrow<int>(config_.checkpoint.keep);
  request.observer = observer;
  return request;
}

StepContext Trainer::context(int64_t micro) {
  StepContext ctx{arena_};
  const bool last = micro + 1 == batches_.num_micro_batches();
  ctx.reducer = last ? update_->reducer() : nullptr;
  ctx.training = true;
  ctx.recompute = config_.train.recompute;
  ctx.seed = static_cast<uint64_t>(config_.run.seed);
  ctx.step = narrow<uint32_t>(steps_done_);
  ctx.first_sequence = batches_.global_rows(micro).begin;
  ctx.rows = rows_;
  return ctx;
}

// Each data rank reads other samples, so that one alone may meet a damaged one, or a slow disk.
TargetCounts Trainer::load_batch() {
  const TraceRange range("load batch");
  TargetCounts counts;
  RankError error;
  const auto start = std::chrono::steady_clock::now();
  try {
    for (const BatchBuffers& micro_batch : prefetched_.take(samples_)) {
      counts.add(micro_batch.batch());
    }
  } catch (const std::exception&) {
    error = handled_error();
  }
  // Whether a rank failed, as in all_or_none(), and what the slowest waited, in seconds.
  std::array<double, 2> most = {error ? 1.0 : 0.0, seconds_since(start)};
  groups_.world.all_reduce(Tensor(most.data(), {2}, DType::f64, kCpu), ReduceOp::max);
  if (most[0] > 0.0) raise_on_all(groups_.world, error);
  unasked_.data_wait_seconds += most[1];
  const int64_t next = samples_ + config_.batch.global;
  if (steps_done_ + 1 < config_.train.steps) prefetched_.load_next(next);
  counts.all_reduce(*groups_.dp);
  return counts;
}

// The record is the same on all ranks.
void Trainer::require_finite_steps() {
  const StepRecord& record = update_->clip().record();
  const auto losses = record.losses().span<double>();
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  const double norm = record.norm().span<double>()[0];
  if (std::isfinite(loss) && std::isfinite(norm)) return;
  const bool of_loss = !std::isfinite(loss);
  throw SharedError(fmt::format(
      "the {} of step {} is {}: training stops before it changes a weight. Checkpoints "
      "are as they were; resume from an earlier step with a smaller optimizer.lr, or "
      "with optimizer.grad_clip",
      of_loss ? "loss" : "gradient norm", static_cast<int64_t>(record.step().span<double>()[0]),
      std::isnan(of_loss ? loss : norm) ? "NaN" : "infinite"));
}

}  // namespace tessera
