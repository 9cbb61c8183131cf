#include "launch/train/micro_steps.h"

#include <algorithm>

#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

/// A run has one shape, or so many that hardly one comes again.
constexpr size_t kMostShapes = 4;

}  // namespace

std::string why_no_cuda_graph(const RunConfig& config, Device device,
                              const ParallelGroups& groups) {
  if (config.train.cuda_graph == CudaGraph::off) return "train.cuda_graph is off";
  if (!device.is_cuda()) return "the ranks compute on CPUs";
  // NCCL enqueues from threads of its own where connecting does not block; nobody has seen that
  // work within a recording.
  if (groups.tp->size() > 1) return "tensor ranks exchange within a micro-batch";
  return "";
}

MicroSteps::Shape::Shape(const TokenBatch& batch) : document_length(batch.document_length) {
  std::ranges::transform(tensors_of(batch), tensors.begin(), [](const Tensor* tensor) {
    return std::pair(static_cast<const void*>(tensor->raw()), tensor->numel());
  });
}

MicroSteps::MicroSteps(Model& model, Device device, bool use_graphs)
    : model_(model), use_graphs_(use_graphs) {
  if (!use_graphs) return;
  moment_ = OwnedTensor({2}, DType::i64, device);
  scale_ = OwnedTensor({2}, DType::f32, device);
}

void MicroSteps::run(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
                     const LossSums& sums) {
  if (use_graphs_) {
    const Arena::Scope scope(ctx.arena);  // a recording that fails leaves nothing in it
    Known* known = find_or_remember(Shape(batch));
    if (known != nullptr) {
      Recorded& recorded = ctx.reducer == nullptr ? known->alone : known->summing;
      if (launch(recorded, {ctx, batch, scale, sums})) return;
    }
  }
  model_.train(ctx, batch, scale, sums);
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

bool MicroSteps::launch(Recorded& recorded, const Pass& pass) {
  if constexpr (kHasCuda) {
    const int64_t moves = cuda::workspace_moves();
    if (recorded.graph == nullptr || recorded.workspace_moves != moves) {
      if (!record(recorded, pass)) return false;
      recorded.workspace_moves = moves;
    }
    fill(moment_.tensor.slice(0, 1), pass.ctx.step);
    fill(moment_.tensor.slice(1, 2), static_cast<double>(pass.ctx.first_sequence));
    fill(scale_.tensor.slice(0, 1), static_cast<double>(pass.scale.token.value));
    fill(scale_.tensor.slice(1, 2), static_cast<double>(pass.scale.document.value));
    recorded.graph->launch([&](size_t cut) { pass.ctx.reducer->start(recorded.buckets[cut]); });
    ++launches_;
    return true;
  }
  return false;
}

bool MicroSteps::record(Recorded& recorded, const Pass& pass) {
  if constexpr (kHasCuda) {
    StepContext ctx = pass.ctx;
    ctx.moment = moment_.tensor;
    const LossScale scale{Factor(scale_.tensor.slice(0, 1)), Factor(scale_.tensor.slice(1, 2))};
    const auto train = [&] { model_.train(ctx, pass.batch, scale, pass.sums); };
    recorded.buckets.clear();
    try {
      recorded.graph = std::make_unique<cuda::Graph>([&](const cuda::Graph::Cut& cut) {
        if (ctx.reducer == nullptr) return train();
        ctx.reducer->record(train, [&](size_t bucket) {
          recorded.buckets.push_back(bucket);
          cut();
        });
      });
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
