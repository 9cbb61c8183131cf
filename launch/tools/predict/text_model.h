#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/arena.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/generation/queried_model.h"
#include "models/model.h"

namespace tessera {

/// A model from a checkpoint of any layout that is queried with a few texts at a time,
/// with its heads split over the ranks of `tp`. All functions except getters are collective over
/// `tp`.
class TextModel final : public QueriedModel {
 public:
  /// For up to `rows` texts at once, with weights and activations in fp32 or bf16. Throws if the
  /// checkpoint's model cannot be split over `tp`'s ranks.
  TextModel(Checkpoint& checkpoint, Communicator& tp, Device device, int64_t rows = 1,
            DType precision = DType::f32);

  using QueriedModel::run;
  /// Of a bf16 result, the numbers in fp32.
  Tensor run(std::span<const Sample> texts, const Ask& ask) override;

  /// Calls `largest` on the meta device. The memory grows to what it needs.
  Arena& reserve(const Passes& largest) override;
  Model& model() const override { return *model_; }
  Communicator& tp() const override { return tp_; }
  Device device() const { return store_.device(); }

  int64_t rows() const { return buffers_.sequences(); }

 private:
  ModelConfig config_;
  Communicator& tp_;
  ParameterStore store_;
  std::unique_ptr<Model> model_;
  BatchBuffers buffers_;
  DeviceBatch device_batch_;
  std::unique_ptr<Arena> arena_;
  OwnedTensor answer_;  ///< unless it is in host memory already
};

/// Throws, starting with `owner`, unless the model was trained for `objective`; says which command
/// to use instead.
void require_objective(const ModelConfig& config, Objective objective, std::string_view owner);

}  // namespace tessera
