#include "launch/train/micro_steps.h"

#include <algorithm>

#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// A run has either one shape or so many that few of them repeat.
constexpr size_t kMostShapes = 4;

}  // namespace

std::string why_no_cuda_graph(const RunConfig& config, Device device,
                              const ParallelGroups& groups) {
  if (config.train.cuda_graph == CudaGraph::off) return "train.cuda_graph is off";
  if (!device.is_cuda()) return "the ranks compute on CPUs";
  if (groups.tp->size() > 1 && groups.tp->name() != "nccl") {
    return "tensor ranks exchange within a micro-batch, and through their hosts, which no graph "
           "holds";
  }
  return "";
}

MicroSteps::Shape::Shape(const TokenBatch& batch) : document_length(batch.document_length) {
  std::ranges::transform(tensors_of(batch), tensors.begin(), [](const Tensor* tensor) {
    return std::pair(static_cast<const void*>(tensor->raw()), tensor->numel());
  });
}

MicroSteps::MicroSteps(Model& model, Communicator& tensor, Device device, bool use_graphs)
    : model_(model), tensor_(tensor), use_graphs_(use_graphs) {
  if (!use_graphs) return;
  rng_offset_ = OwnedTensor({2}, DType::i64, device);
  scale_ = OwnedTensor({2}, DType::f32, device);
}

void MicroSteps::run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& scale,
                     const LossSums& sums) {
  if (use_graphs_) {
    const Arena::Scope scope(ctx.arena);  // leaves nothing behind if the capture fails
    const Pass pass{ctx, batch, scale, sums};
    Known* known = find_or_remember(Shape(batch));
    Recorded* recorded = known == nullptr         ? nullptr
                         : ctx.reducer == nullptr ? &known->alone
                                                  : &known->summing;
    const Way way = agree(find_way(recorded));
    std::string why_not;
    if (way == Way::stop) {
      why_not = fmt::format(
          "micro-batches have more than {} different shapes or numbers of targets", kMostShapes);
    }
    if (way == Way::record) why_not = record(*recorded, pass);
    if (!why_not.empty()) {
      stop(why_not);
    } else if (way != Way::run) {
      return launch(*recorded, pass);
    }
  }
  model_.train(ctx, batch, scale, sums);
}

MicroSteps::Known* MicroSteps::find_or_remember(const Shape& shape) {
  const auto known = std::ranges::find(known_, shape, &Known::shape);
  if (known != known_.end()) return &*known;
  known_.push_back({shape});
  return nullptr;
}

MicroSteps::Way MicroSteps::find_way(const Recorded* recorded) const {
  if (known_.size() > kMostShapes) return Way::stop;
  if (recorded == nullptr) return Way::run;
  if constexpr (kHasCuda) {
    const bool holds =
        recorded->graph != nullptr && recorded->workspace_moves == cuda::workspace_moves();
    return holds ? Way::launch : Way::record;
  }
  return Way::run;
}

MicroSteps::Way MicroSteps::agree(Way way) {
  auto number = static_cast<int32_t>(way);
  tensor_.all_reduce(Tensor(&number, {1}, DType::i32, kCpu), ReduceOp::max);
  return static_cast<Way>(number);
}

std::string MicroSteps::record(Recorded& recorded, const Pass& pass) {
  const std::string mine = record_here(recorded, pass);
  if (agree(mine.empty() ? Way::record : Way::stop) == Way::record) return "";
  const std::vector<std::string> all = all_gather_strings(tensor_, mine);
  return *std::ranges::find_if_not(all, &std::string::empty);
}

std::string MicroSteps::record_here(Recorded& recorded, const Pass& pass) {
  if constexpr (kHasCuda) {
    StepContext ctx = pass.ctx;
    ctx.rng_offset = rng_offset_.tensor;
    const LossWeights scale{Scalar(scale_.tensor.slice(0, 1)), Scalar(scale_.tensor.slice(1, 2))};
    const auto train = [&] { model_.train(ctx, pass.batch, scale, pass.sums); };
    recorded.buckets.clear();
    recorded.workspace_moves = cuda::workspace_moves();
    try {
      recorded.graph = std::make_unique<cuda::Graph>([&](const cuda::Graph::Cut& cut) {
        if (ctx.reducer == nullptr) return train();
        ctx.reducer->record(train, [&](size_t bucket) {
          recorded.buckets.push_back(bucket);
          cut();
        });
      });
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

void MicroSteps::launch(const Recorded& recorded, const Pass& pass) {
  if constexpr (kHasCuda) {
    fill(rng_offset_.tensor.slice(0, 1), pass.ctx.step);
    fill(rng_offset_.tensor.slice(1, 2), static_cast<double>(pass.ctx.first_sequence));
    fill(scale_.tensor.slice(0, 1), static_cast<double>(pass.scale.token.value));
    fill(scale_.tensor.slice(1, 2), static_cast<double>(pass.scale.document.value));
    recorded.graph->launch([&](size_t cut) { pass.ctx.reducer->start(recorded.buckets[cut]); });
    ++launches_;
  }
}

void MicroSteps::stop(const std::string& why) {
  note_ = "no CUDA graphs from here on, because " + why;
  use_graphs_ = false;
  known_.clear();
}

}  // namespace tessera
