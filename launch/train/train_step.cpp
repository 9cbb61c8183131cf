#include "launch/train/train_step.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/flight_recorder.h"
#include "core/trace/trace.h"
#include "launch/train/optimizer/lr_schedule.h"
#include "launch/train/run_layout.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

/// 0 for an empty mean.
float one_over(int64_t count) { return count == 0 ? 0.0f : 1.0f / static_cast<float>(count); }

}  // namespace

TrainStep::TrainStep(const StepOptions& options, MicroStepRunner& runner, OptimizerState& state,
                     ShardedUnits& units, const ParallelGroups& groups, Arena& arena)
    : options_(options),
      runner_(runner),
      store_(state.store()),
      units_(units),
      groups_(groups),
      arena_(arena),
      update_(options, state, units, groups),
      sums_({LossSums::kCount}, DType::f64, store_.device()) {
  if (options.noise_scale_interval > 0) {
    local_norm_.emplace(store_, groups);
    first_squares_ = OwnedTensor({1}, DType::f64, store_.device());
  }
  const int64_t texts = traits_of(options.model).texts_of_sample;
  if (texts == 0) return;
  contrastive_.emplace(store_.device(), options.batch.global, texts, options.model.symmetric_loss);
}

TrainStep::Loaded TrainStep::run(int64_t step, MicroBatchSource& batches) {
  FlightRecorder* recorder = FlightRecorder::current();
  if (recorder != nullptr) recorder->begin_step(step + 1);
  const Loaded loaded = load(batches);
  round_values(step);
  forward_and_backward(step, batches, runner_, loaded.counts, measures_noise(step));
  const LossSums sums{sums_.tensor};
  update_.reduce(sums, arena_);
  update_.apply(step, learning_rate(options_.optimizer, step, options_.train.steps), sums, arena_);
  if (recorder != nullptr) recorder->end_step();
  return loaded;
}

void TrainStep::compute_gradients(int64_t step, MicroBatchSource& batches,
                                  MicroStepRunner& runner) {
  const Loaded loaded = load(batches);
  round_values(step);
  forward_and_backward(step, batches, runner, loaded.counts, /*measures_noise=*/false);
  update_.reduce({sums_.tensor}, arena_);
}

// Data ranks read different samples, so a damaged one, or a slow disk, may affect a single rank.
TrainStep::Loaded TrainStep::load(MicroBatchSource& batches) const {
  const TraceRange range("load batch");
  Loaded loaded;
  RankError error;
  const auto start = std::chrono::steady_clock::now();
  try {
    loaded.counts = batches.load();
  } catch (const std::exception&) {
    error = handled_error();
    if (error.code == ExitCode::failed && !error.of_peer) error.code = ExitCode::data;
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  // {1 if any rank failed, longest wait in seconds}
  std::array<double, 2> most = {error ? 1.0 : 0.0, waited.count()};
  groups_.world.all_reduce(Tensor(most.data(), {2}, DType::f64, kCpu), ReduceOp::max);
  if (most[0] > 0.0) raise_on_all(groups_.world, error);
  loaded.wait_seconds = most[1];
  batches.load_next();
  loaded.counts.all_reduce(*groups_.replicas);
  return loaded;
}

void TrainStep::forward_and_backward(int64_t step, MicroBatchSource& batches,
                                     MicroStepRunner& runner, const TargetCounts& counts,
                                     bool measures_noise) {
  const LossWeights weights = {one_over(counts.token_targets), one_over(counts.document_targets)};
  store_.invalidate_grads();  // the first product that adds to a gradient overwrites it
  units_.begin_step();
  fill(sums_.tensor, 0.0);
  FlightRecorder* recorder = FlightRecorder::current();
  if (contrastive_) {
    embed_and_backward(step, batches, runner, counts);
  } else {
    for (int64_t i = 0; i < batches.size(); ++i) {
      if (recorder != nullptr) recorder->begin_micro_batch(i + 1, batches.size());
      arena_.reset();
      StepContext ctx = context_of(step, batches, i);
      const bool measures = measures_noise && i == 0;
      if (measures) ctx.reducer = nullptr;  // the sum over the replicas would come too early
      const auto run = [&] { runner.run(ctx, batches.batch(i), weights, {sums_.tensor}); };
      measures ? measure_first(batches.size(), run) : run();
    }
  }
  if (recorder != nullptr) recorder->end_micro_batches();
  arena_.reset();
  require_all_gradients();
}

bool TrainStep::measures_noise(int64_t step) const {
  const int64_t interval = options_.noise_scale_interval;
  return interval > 0 && (step + 1) % interval == 0;
}

void TrainStep::measure_first(int64_t micro_batches, const std::function<void()>& run) {
  const LocalGradientNorm& norm = local_norm_.value();
  const Tensor squares = first_squares_.tensor;
  fill(squares, 0.0);
  units_.observe([&](const Parameter& parameter) { norm.add(parameter, squares); });
  run();
  units_.observe({});
  const TraceRange range("gradient noise");
  norm.finish(squares);
  GradientReducer* reducer = update_.reducer();
  if (micro_batches > 1 || reducer == nullptr) return;
  const auto& parameters = store_.parameters();
  std::for_each(parameters.rbegin(), parameters.rend(),
                [&](const Parameter& parameter) { reducer->add(parameter); });
}

GradientSquares TrainStep::gradient_squares() {
  const OwnedTensor host({1}, DType::f64);
  copy(first_squares_.tensor, host.tensor);
  const auto few = static_cast<double>(options_.batch.micro);
  const auto all = static_cast<double>(options_.batch.global);
  // The gradient of a micro-batch is its part of the step's, whose mean is over all samples.
  const double part = few / all, norm = record().norm().span<double>()[0];
  return {host.tensor.span<double>()[0] / groups_.dp->size() / (part * part), norm * norm,
          options_.batch.micro, options_.batch.global};
}

StepContext TrainStep::context_of(int64_t step, const MicroBatchSource& batches, int64_t i) const {
  StepContext ctx{arena_};
  ctx.reducer = i + 1 == batches.size() ? update_.reducer() : nullptr;
  ctx.training = true;
  ctx.recompute = options_.train.recompute;
  ctx.seed = options_.seed;
  ctx.step = narrow<uint32_t>(step);
  ctx.first_sequence = batches.first_sequence(i);
  ctx.rows = sequence_shard(options_.parallel, groups_);
  ctx.cp = groups_.cp.get();
  return ctx;
}

void TrainStep::embed_and_backward(int64_t step, MicroBatchSource& batches, MicroStepRunner& runner,
                                   const TargetCounts& counts) {
  arena_.reset();
  const Communicator& dp = *groups_.dp;
  const int64_t samples = options_.batch.global, local = samples / dp.size();
  const int64_t texts = traits_of(options_.model).texts_of_sample;
  const Range own = {dp.rank() * local, (dp.rank() + 1) * local};
  const Shape shape = {samples * texts, options_.model.hidden_size};
  const Tensor embeddings = arena_.allocate(shape, DType::f32);
  const Tensor gradient = arena_.allocate(shape, DType::f32);
  const auto length = static_cast<float>(std::sqrt(options_.model.similarity_scale));
  const auto rows_of = [&](const Tensor& all, int64_t i) {  // of a micro-batch
    const int64_t first = (own.begin + i * options_.batch.micro) * texts;
    return all.slice(first, first + options_.batch.micro * texts);
  };
  FlightRecorder* recorder = FlightRecorder::current();
  const auto embed = [&](int64_t i) {
    if (recorder != nullptr) recorder->begin_micro_batch(i + 1, batches.size());
    TokenBatch batch = batches.batch(i);
    const Tensor found = runner.embed(context_of(step, batches, i), batch, length);
    copy(found, rows_of(embeddings, i));
    return batch;
  };
  const auto compare = [&] {
    const TrafficScope traffic(Traffic::loss);
    const Tensor own_rows = embeddings.slice(own.begin * texts, own.end * texts);
    groups_.dp->all_gather(own_rows, embeddings);
    // All context ranks compute the same loss, of which one counts.
    Tensor loss = LossSums{sums_.tensor}.document_loss();
    if (groups_.cp->rank() > 0) loss = arena_.allocate({1}, DType::f64);
    contrastive_->loss_and_gradient(arena_, embeddings, own, one_over(counts.document_targets),
                                    loss, gradient);
  };
  if (batches.size() == 1) {  // nothing is computed twice
    const TokenBatch batch = embed(0);
    compare();
    return runner.embed_backward(context_of(step, batches, 0), batch, rows_of(gradient, 0));
  }
  for (int64_t i = 0; i < batches.size(); ++i) {
    const Arena::Scope scope(arena_);
    embed(i);
  }
  compare();
  for (int64_t i = 0; i < batches.size(); ++i) {
    const Arena::Scope scope(arena_);
    const TokenBatch batch = embed(i);
    runner.embed_backward(context_of(step, batches, i), batch, rows_of(gradient, i));
  }
}

void TrainStep::require_all_gradients() const {
  for (const Parameter& parameter : store_.parameters()) {
    require(!parameter.grad_is_invalid, "no layer's backward pass gave {} a gradient",
            parameter.name);
  }
}

// Not called from loading: loading may fail on one rank, and this call is collective.
void TrainStep::round_values(int64_t steps_done) {
  if (!values_are_rounded_) update_.round_values(steps_done);
  values_are_rounded_ = true;
}

void TrainStep::swap_average() {
  update_.swap_average();
  values_are_rounded_ = false;
}

void TrainStep::reset(const ClipState& before) {
  values_are_rounded_ = false;
  update_.clip().reset(before);
}

BatchShare batch_share(const BatchSection& batch, int data_ranks) {
  const int64_t local = div_exact(batch.global, data_ranks, "batch.global", "the data ranks");
  return {local, div_exact(local, batch.micro, "a data rank's batch", "batch.micro")};
}

}  // namespace tessera
