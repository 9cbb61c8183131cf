#include "launch/train/micro_steps.h"

#include <algorithm>
#include <utility>

#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/elementwise.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/nccl/nccl_communicator.h"
#include "parallel/communicators/nccl/nccl_environment.h"

namespace tessera {
namespace {

/// Enough for the sizes that padding leaves (padded_sizes()). A graph takes GPU memory.
constexpr size_t kMostShapes = 16;
/// GPU memory that new graphs leave free: a driver takes up to 64 KiB for each kernel of a graph.
constexpr size_t kBytesLeftFree = size_t{256} << 20;

/// Lets products leave multiprocessors to the reductions of gradients that run beside them, if the
/// user has said how many those take.
class RoomForReductions {
 public:
  explicit RoomForReductions(bool reduces) {
    if constexpr (kHasNccl) {
      if (reduces) cuda::leave_multiprocessors(nccl_most_multiprocessors());
    }
  }
  ~RoomForReductions() {
    if constexpr (kHasNccl) cuda::leave_multiprocessors(0);
  }
  RoomForReductions(const RoomForReductions&) = delete;
  RoomForReductions& operator=(const RoomForReductions&) = delete;
};

}  // namespace

std::optional<std::string> cuda_graph_unsupported_reason(const StepOptions& options, Device device,
                                                         const ParallelGroups& groups) {
  if (options.train.cuda_graph == CudaGraph::off) return "train.cuda_graph is off";
  if (!device.is_cuda()) return "the ranks compute on CPUs";
  if (traits_of(options.model).objective == Objective::embedding) {
    return "the loss of model.head: embedding compares all micro-batches";
  }
  for (const Communicator* group : {groups.tp.get(), groups.cp.get()}) {
    if (group->size() == 1) continue;
    if (auto reason = group->capture_unsupported_reason()) return reason;
  }
  return std::nullopt;
}

MicroSteps::Shape::Shape(const TokenBatch& batch) : document_length(batch.document_length) {
  for (const Tensor* tensor : tensors_of(batch)) {
    tensors.emplace_back(tensor->raw(), tensor->numel());
  }
  halo = batch.cut.halo.sends;
  halo.insert(halo.end(), batch.cut.halo.receives.begin(), batch.cut.halo.receives.end());
}

MicroSteps::MicroSteps(Model& model, ParameterStore& store, const ParallelGroups& groups,
                       Device device, bool use_graphs)
    : model_(model), store_(store), groups_(groups), use_graphs_(use_graphs) {
  if (!use_graphs) return;
  rng_offset_ = OwnedTensor({2}, DType::i64, device);
  scale_ = OwnedTensor({2}, DType::f32, device);
}

void MicroSteps::run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& scale,
                     const LossSums& sums) {
  const RoomForReductions room(ctx.reducer != nullptr);
  if (use_graphs_) {
    const Arena::Scope scope(ctx.arena);  // leaves nothing behind if the capture fails
    const Pass pass{ctx, batch, scale, sums};
    Captured* captured = find_or_add(pass);
    const Action action = agree(preferred_action(captured));
    std::optional<std::string> why_not;
    if (action == Action::stop) {
      why_not =
          fmt::format("micro-batches had {} different shapes or numbers of targets, and few repeat",
                      new_shapes_);
    }
    if (action == Action::capture) why_not = capture(*captured, pass);
    if (why_not) {
      stop(*why_not);
    } else if (action != Action::run) {
      return launch(*captured, pass);
    }
  }
  model_.train(ctx, batch, scale, sums);
}

MicroSteps::ShapeGraphs* MicroSteps::find_or_add_shape(const TokenBatch& batch) {
  const Shape shape(batch);
  auto known = std::ranges::find(known_, shape, &ShapeGraphs::shape);
  if (known == known_.end()) {
    ++new_shapes_;
    if (known_.size() == kMostShapes) {
      // In favor of a shape that may repeat, forget the oldest that has not.
      const auto unused = std::ranges::find_if_not(known_, &ShapeGraphs::has_graphs);
      if (unused == known_.end()) return nullptr;
      known_.erase(unused);
    }
    known_.push_back({shape});
    return &known_.back();
  }
  return &*known;
}

MicroSteps::Captured* MicroSteps::find_or_add(const Pass& pass) {
  ShapeGraphs* const known = find_or_add_shape(pass.batch);
  if (known == nullptr) return nullptr;
  const size_t invalid = store_.invalid_grads();
  // A backward pass visits all trained parameters. One that left some out would need a graph of its
  // own.
  const auto trained = std::ranges::count(store_.parameters(), false, &Parameter::frozen);
  if (invalid != 0 && std::cmp_not_equal(invalid, trained)) return nullptr;
  Passes& passes = invalid == 0 ? known->later : known->first;
  if (!std::exchange(passes.ran, true)) return nullptr;
  return pass.ctx.reducer == nullptr ? &passes.alone : &passes.summing;
}

MicroSteps::Action MicroSteps::preferred_action(const Captured* captured) const {
  if (new_shapes_ > std::max<int64_t>(kMostShapes, launches_)) return Action::stop;
  if (captured == nullptr) return Action::run;
  if constexpr (kHasCuda) {
    const bool exists = captured->graph != nullptr;
    if (exists && captured->workspace_moves == cuda::workspace_moves()) return Action::launch;
    if (exists || cuda::bytes_free_for_graphs() >= kBytesLeftFree) return Action::capture;
  }
  return Action::run;
}

MicroSteps::Action MicroSteps::agree(Action action) {
  auto number = static_cast<int32_t>(action);
  for (Communicator* group : {groups_.tp.get(), groups_.cp.get()}) {
    group->all_reduce(Tensor(&number, {1}, DType::i32, kCpu), ReduceOp::max);
  }
  return static_cast<Action>(number);
}

std::optional<std::string> MicroSteps::capture(Captured& captured, const Pass& pass) {
  const bool overwrites = store_.invalid_grads() > 0;
  const std::optional<std::string> local = capture_local(captured, pass);
  if (agree(local ? Action::stop : Action::capture) == Action::capture) return std::nullopt;
  if (overwrites) store_.invalidate_grads();  // the layers have marked them as valid
  std::string why_not = local.value_or("");
  for (Communicator* group : {groups_.tp.get(), groups_.cp.get()}) {
    const std::vector<std::string> all = all_gather_strings(*group, why_not);
    const auto found = std::ranges::find_if_not(all, &std::string::empty);
    if (found != all.end()) why_not = *found;
  }
  return why_not;
}

std::optional<std::string> MicroSteps::capture_local(Captured& captured, const Pass& pass) {
  if constexpr (kHasCuda) {
    StepContext ctx = pass.ctx;
    ctx.rng_offset = rng_offset_.tensor;
    const LossWeights scale{Scalar(scale_.tensor.slice(0, 1)), Scalar(scale_.tensor.slice(1, 2))};
    const auto forget = [&] {
      if (ctx.reducer != nullptr) ctx.reducer->forget();
    };
    captured.workspace_moves = cuda::workspace_moves();
    try {
      captured.graph = std::make_unique<cuda::Graph>([&](const cuda::Graph::Cut& cut) {
        PassRecorder recorder(cut);
        ctx.recorder = &recorder;
        model_.train(ctx, pass.batch, scale, pass.sums);
        captured.actions = recorder.take_actions();
      });
    } catch (const Error& error) {
      forget();
      return error.what();
    }
    forget();
  }
  return std::nullopt;
}

void MicroSteps::launch(const Captured& captured, const Pass& pass) {
  if constexpr (kHasCuda) {
    fill(rng_offset_.tensor.slice(0, 1), pass.ctx.step);
    fill(rng_offset_.tensor.slice(1, 2), static_cast<double>(pass.ctx.first_sequence));
    fill(scale_.tensor.slice(0, 1), static_cast<double>(pass.scale.token.value));
    fill(scale_.tensor.slice(1, 2), static_cast<double>(pass.scale.document.value));
    captured.graph->launch([&](size_t cut) { captured.actions[cut](); });
    store_.mark_grads_valid();
    ++launches_;
  }
}

void MicroSteps::stop(const std::string& why) {
  note_ = "no CUDA graphs from here on, because " + why;
  use_graphs_ = false;
  known_.clear();
}

}  // namespace tessera
