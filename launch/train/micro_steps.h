#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cuda/graph.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/device_batch.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Why no micro-step of a run can be recorded as a CUDA graph, in words that follow "because"; ""
/// if some can.
std::string why_no_cuda_graph(const RunConfig& config, Device device, const ParallelGroups& groups);

/// Runs the micro-steps of a trainer. On a GPU, one that comes again with the same shapes is
/// recorded, and from then on launched as a whole: the host enqueues one CUDA graph instead of some
/// hundred kernels. What differs from step to step all the same, the loss scale and what dropout
/// draws, kernels read from the device. The results are the same bits.
///
/// A micro-step whose gradients are summed over the data ranks meanwhile is cut where a bucket is
/// final: the host starts its sum between two parts. So no sum of gradients is recorded, and data
/// ranks may have batches of different shapes. What tensor ranks exchange within each layer is
/// recorded with it. Of such a collective either all ranks must have recorded their part or none,
/// so tensor ranks agree about each micro-step, which takes the host an exchange of a number.
class MicroSteps final : public MicroStepRunner {
 public:
  /// `use_graphs` only where why_no_cuda_graph() is "". The model, on `device`, and the tensor
  /// ranks' communicator must outlive it.
  MicroSteps(Model& model, Communicator& tensor, Device device, bool use_graphs);

  /// As Model::train; always with the same arena, which is empty, the same reducer or none, and the
  /// same sums; the scale is told by value. What can not be recorded, on any tensor rank, is run.
  /// Collective over the tensor ranks.
  void run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& scale,
           const LossSums& sums) override;

  /// Whether micro-steps may still be recorded: a graph is recorded once for the first micro-batch
  /// and all others, so it always adds to the gradients.
  bool always_adds() const override { return use_graphs_; }

  /// How many were launched as a graph.
  int64_t launches() const { return launches_; }

  /// Why there are no graphs from some micro-step on, which is said once; else "".
  std::string take_note() { return std::exchange(note_, {}); }

 private:
  /// What a graph fixes of what could change.
  struct Shape {
    using Tensors = decltype(tensors_of(std::declval<const TokenBatch&>()));
    std::array<std::pair<const void*, int64_t>, std::tuple_size_v<Tensors>> tensors;
    int64_t document_length;

    explicit Shape(const TokenBatch& batch);
    bool operator==(const Shape&) const = default;
  };

  struct Recorded {
    std::unique_ptr<cuda::Graph> graph = nullptr;
    std::vector<size_t> buckets = {};  ///< whose sums start where it is cut
    int64_t workspace_moves = 0;       ///< when it was recorded
  };

  /// A shape that has run once, so that all libraries have what they need, and its graphs once it
  /// has come again.
  struct Known {
    Shape shape;
    Recorded alone = {}, summing = {};  ///< without and with a reducer
  };

  /// What is done with a micro-step; of the tensor ranks' ways the last counts.
  enum class Way : int32_t { launch, record, run, stop };

  /// The arguments of run().
  struct Pass {
    const StepContext& ctx;
    const TokenBatch& batch;
    const LossWeights& scale;
    const LossSums& sums;
  };

  /// Null, and remembered where there is room, if it has not run before.
  Known* find_or_remember(const Shape& shape);
  /// What could be done on this rank with what is remembered of a shape, if anything.
  Way find_way(const Recorded* recorded) const;
  Way agree(Way way);
  /// Why it could not be done, on any tensor rank; "" if it was.
  std::string record(Recorded& recorded, const Pass& pass);
  std::string record_here(Recorded& recorded, const Pass& pass);
  void launch(const Recorded& recorded, const Pass& pass);
  void stop(const std::string& why);

  Model& model_;
  Communicator& tensor_;
  bool use_graphs_;
  // What graphs read that differs from launch to launch.
  OwnedTensor rng_offset_;  // (2) int64, as StepContext::rng_offset
  OwnedTensor scale_;       // (2) fp32, of tokens and of documents
  std::vector<Known> known_;
  int64_t launches_ = 0;
  std::string note_;
};

}  // namespace tessera
