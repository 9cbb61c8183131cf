#include "launch/train/micro_steps.h"

#include <algorithm>

#include "core/cuda/workspace.h"
#include "core/error.h"

namespace tessera {
namespace {

/// A run has one shape, or so many that hardly one comes again.
constexpr size_t kMostShapes = 4;

bool has_dropout(const ModelConfig& model) {
  return model.dropout > 0.0 || model.attention_dropout > 0.0;
}

bool sums_every_micro_step(const RunConfig& config, const Communicator& dp) {
  return dp.size() > 1 && config.batch.global == config.batch.micro * dp.size();
}

}  // namespace

std::string why_no_cuda_graph(const RunConfig& config, Device device,
                              const ParallelGroups& groups) {
  if (config.train.cuda_graph == CudaGraph::off) return "train.cuda_graph is off";
  if (!device.is_cuda()) return "the ranks compute on CPUs";
  if (has_dropout(config.model)) {
    return fmt::format(
        "dropout drops other elements in every step (model.dropout is {}, "
        "model.attention_dropout {})",
        config.model.dropout, config.model.attention_dropout);
  }
  // NCCL enqueues from threads of its own where connecting does not block; nobody has seen that
  // work within a recording.
  if (groups.tp->size() > 1) return "tensor ranks exchange within a micro-batch";
  if (sums_every_micro_step(config, *groups.dp)) {
    return "a step has one micro-batch, during which its gradients are summed over the data ranks";
  }
  return "";
}

MicroSteps::Shape::Shape(const TokenBatch& batch, const LossScale& scale)
    : document_length(batch.document_length),
      token_scale(scale.token),
      document_scale(scale.document) {
  std::ranges::transform(tensors_of(batch), tensors.begin(), [](const Tensor* tensor) {
    return std::pair(static_cast<const void*>(tensor->raw()), tensor->numel());
  });
}

void MicroSteps::run(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
                     const LossSums& sums) {
  const auto micro_step = [&] { model_.train(ctx, batch, scale, sums); };
  if (use_graphs_ && ctx.reducer == nullptr) {
    const Arena::Scope scope(ctx.arena);  // a recording that fails leaves nothing in it
    Known* known = find_or_remember(Shape(batch, scale));
    if (known != nullptr && launch(*known, micro_step)) return;
  }
  micro_step();
}

MicroSteps::Known* MicroSteps::find_or_remember(const Shape& shape) {
  const auto known = std::ranges::find(known_, shape, &Known::shape);
  if (known != known_.end()) return &*known;
  if (known_.size() < kMostShapes) {
    known_.push_back({shape});
  } else {
    stop(fmt::format("micro-batches have more than {} different shapes or numbers of targets",
                     kMostShapes));
  }
  return nullptr;
}

bool MicroSteps::launch(Known& known, const std::function<void()>& micro_step) {
  if constexpr (kHasCuda) {
    const int64_t moves = cuda::workspace_moves();
    if (known.graph == nullptr || known.workspace_moves != moves) {
      if (!record(known, micro_step)) return false;
      known.workspace_moves = moves;
    }
    known.graph->launch();
    ++launches_;
    return true;
  }
  return false;
}

bool MicroSteps::record(Known& known, const std::function<void()>& micro_step) {
  if constexpr (kHasCuda) {
    try {
      known.graph = std::make_unique<cuda::Graph>(micro_step);
      return true;
    } catch (const Error& error) {
      stop(error.what());
    }
  }
  return false;
}

void MicroSteps::stop(const std::string& why) {
  note_ = "no CUDA graphs from here on, because " + why;
  use_graphs_ = false;
  known_.clear();
}

}  // namespace tessera
