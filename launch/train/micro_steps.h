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
#include "launch/data/device_batch.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Why no micro-step of a run can be recorded as a CUDA graph, in words that follow "because"; ""
/// if some can.
std::string why_no_cuda_graph(const RunConfig& config, Device device, const ParallelGroups& groups);

/// Runs the micro-steps of a trainer. On a GPU, one that comes again with the same shapes and loss
/// scale is recorded, and from then on launched as a whole: the host enqueues one CUDA graph
/// instead of some hundred kernels. The results are the same bits.
///
/// A micro-step whose gradients are summed over the data ranks meanwhile is never recorded: of a
/// collective either all ranks have recorded their part or none, and data ranks may have batches of
/// different shapes. Nor is one of several tensor ranks, which exchange within it.
class MicroSteps {
 public:
  /// `use_graphs` only where why_no_cuda_graph() is "". The model must outlive it.
  MicroSteps(Model& model, bool use_graphs) : model_(model), use_graphs_(use_graphs) {}

  /// As Model::train; always with the same arena, which is empty, and the same sums. What can not
  /// be recorded is run.
  void run(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
           const LossSums& sums);

  /// Whether micro-steps may still be recorded.
  bool use_graphs() const { return use_graphs_; }

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
    float token_scale, document_scale;

    Shape(const TokenBatch& batch, const LossScale& scale);
    bool operator==(const Shape&) const = default;
  };

  /// A shape that has run once, so that all libraries have what they need, and its graph once it
  /// has come again.
  struct Known {
    Shape shape;
    std::unique_ptr<cuda::Graph> graph = nullptr;
    int64_t workspace_moves = 0;  ///< when it was recorded
  };

  /// Null, and remembered, if it has not run before.
  Known* find_or_remember(const Shape& shape);
  /// Records it first where there is no graph, or one of an earlier workspace. False if that can
  /// not be; then there are no graphs any more.
  bool launch(Known& known, const std::function<void()>& micro_step);
  bool record(Known& known, const std::function<void()>& micro_step);
  void stop(const std::string& why);

  Model& model_;
  bool use_graphs_;
  std::vector<Known> known_;
  int64_t launches_ = 0;
  std::string note_;
};

}  // namespace tessera
