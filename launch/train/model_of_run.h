#pragma once

#include <memory>

#include "core/arena.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/generation/queried_model.h"
#include "models/model.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The model of a run between two steps. Texts are written in the memory of steps: the plan has run
/// the same passes. Questions about a text may need memory of their own.
class ModelOfRun final : public QueriedModel {
 public:
  /// All references must outlive this.
  ModelOfRun(const RunConfig& config, Model& model, Communicator& tp, Arena& arena)
      : config_(config), model_(model), tp_(tp), arena_(arena) {}

  Model& model() const override { return model_; }
  Communicator& tp() const override { return tp_; }
  Arena& reserve(const Passes& /*largest*/) override {
    arena_.reset();
    return arena_;
  }

  using QueriedModel::run;
  Tensor run(std::span<const Sample> texts, const Ask& ask) override;

 private:
  /// The arena of steps, or one of its own if that is too small.
  Arena& arena_for(const TokenBatch& batch, const Ask& ask);

  const RunConfig& config_;
  Model& model_;
  Communicator& tp_;
  Arena& arena_;
  std::unique_ptr<Arena> own_arena_;
  std::unique_ptr<BatchBuffers> buffers_;
  std::unique_ptr<DeviceBatch> device_batch_;
  OwnedTensor answer_;
};

}  // namespace tessera
