#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/graph.h"
#include "launch/config/sections.h"
#include "launch/data/loading/device_batch.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Why no micro-step of a run can be captured as a CUDA graph, as words that follow "because";
/// nullopt if some can.
std::optional<std::string> cuda_graph_unsupported_reason(const StepOptions& options, Device device,
                                                         const ParallelGroups& groups);

/// Runs the micro-steps of a trainer. On a GPU, a micro-step whose shapes repeat is captured, and
/// afterwards the host launches one CUDA graph instead of some hundred kernels. Kernels read what
/// still differs from step to step, the loss scale and the random state of dropout, from the
/// device. The results are bitwise the same.
///
/// A step's first micro-batch overwrites gradients and later ones add to them, so each has graphs
/// of its own, and no step clears gradients. With the parts below, a shape has at most three
/// graphs: the first micro-batch, the ones between, and the last; or one that is first and last.
/// At most 16 shapes have graphs, and others run without. Graphs are given up if more new shapes
/// come than graphs are launched.
///
/// A micro-step is cut where the host has something to do (PassRecorder): where a bucket of
/// gradients is final, it starts the bucket's sum between two parts. Gradient sums are therefore
/// never captured, and data ranks may have batches of different shapes. The collectives of tensor
/// and context ranks within each layer are captured. Every rank must capture a captured collective,
/// so these ranks vote on each micro-step, which costs the host an exchange of one number.
class MicroSteps final : public MicroStepRunner {
 public:
  /// Set `use_graphs` only if cuda_graph_unsupported_reason() is nullopt. The model, its parameters
  /// in `store`, on `device`, and the groups must outlive this.
  MicroSteps(Model& model, ParameterStore& store, const ParallelGroups& groups, Device device,
             bool use_graphs);

  /// Like Model::train. Always pass the same empty arena, the same reducer or none, and the same
  /// sums; the scale is passed by value. Falls back to a plain run if any tensor or context rank
  /// cannot capture. Collective over these ranks.
  void run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& scale,
           const LossSums& sums) override;

  /// Never as graphs.
  Tensor embed(const StepContext& ctx, const TokenBatch& batch, float length) override {
    return model_.embed(ctx, batch, length);
  }
  void embed_backward(const StepContext& ctx, const TokenBatch& batch,
                      const Tensor& gradient) override {
    model_.embed_backward(ctx, batch, gradient);
  }

  /// Number of graph launches.
  int64_t launches() const { return launches_; }

  /// Why graphs were given up; returned once, otherwise "".
  std::string take_note() { return std::exchange(note_, {}); }

 private:
  /// The properties a captured graph fixes.
  struct Shape {
    std::vector<std::pair<const void*, int64_t>> tensors;
    int64_t document_length;
    std::vector<int64_t> halo;  ///< rows to and from each context rank

    explicit Shape(const TokenBatch& batch);
    bool operator==(const Shape&) const = default;
  };

  struct Captured {
    std::unique_ptr<cuda::Graph> graph = nullptr;
    std::vector<PassRecorder::Action> actions = {};  ///< of the host, at the cuts
    int64_t workspace_moves = 0;                     ///< at the time of capture
  };

  /// Micro-steps of one shape that all overwrite gradients or all add to them. The first one runs
  /// without a graph, so that all libraries are warmed up.
  struct Passes {
    bool ran = false;
    Captured alone = {}, summing = {};  ///< without and with a reducer
  };

  struct ShapeGraphs {
    Shape shape;
    Passes first = {}, later = {};  ///< by whether a micro-batch is the first of its step

    bool has_graphs() const {
      return std::ranges::any_of(
          std::array{&first.alone, &first.summing, &later.alone, &later.summing},
          [](const Captured* captured) { return captured->graph != nullptr; });
    }
  };

  /// How a micro-step is executed; the highest value of all ranks that vote wins.
  enum class Action : int32_t { launch, capture, run, stop };

  /// The arguments of run().
  struct Pass {
    const StepContext& ctx;
    const TokenBatch& batch;
    const LossWeights& scale;
    const LossSums& sums;
  };

  /// Returns null if no shape can be forgotten for that of a new batch.
  ShapeGraphs* find_or_add_shape(const TokenBatch& batch);
  /// Returns null for passes that have not run yet, and notes that they have.
  Captured* find_or_add(const Pass& pass);
  /// The action this rank prefers, given the captured graph, if any.
  Action preferred_action(const Captured* captured) const;
  Action agree(Action action);
  /// Returns why capturing failed on any rank that votes; nullopt if it succeeded. After a failure,
  /// gradients are as invalid as before.
  std::optional<std::string> capture(Captured& captured, const Pass& pass);
  std::optional<std::string> capture_local(Captured& captured, const Pass& pass);
  void launch(const Captured& captured, const Pass& pass);
  void stop(const std::string& why);

  Model& model_;
  ParameterStore& store_;
  const ParallelGroups& groups_;
  bool use_graphs_;
  // Inputs that graphs read on each launch.
  OwnedTensor rng_offset_;  // (2) int64, see StepContext::rng_offset
  OwnedTensor scale_;       // (2) fp32, for tokens and documents
  std::vector<ShapeGraphs> known_;
  int64_t new_shapes_ = 0;  // so far
  int64_t launches_ = 0;
  std::string note_;
};

}  // namespace tessera
