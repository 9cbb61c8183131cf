#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/arena.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "models/model.h"

namespace tessera {

/// A model from a checkpoint of any layout, in fp32, that is queried with one text at a time, with
/// its heads split over the ranks of `tp`. All functions except getters are collective over `tp`.
class TextModel {
 public:
  /// Throws if the checkpoint's model cannot be split over `tp`'s ranks.
  TextModel(Checkpoint& checkpoint, Communicator& tp, Device device);

  /// Computes a result for one text by forward passes without dropout.
  using Ask = std::function<Tensor(Model& model, const StepContext& ctx, const TokenBatch& batch)>;

  /// Returns the result of `ask` for the text, in host memory until the next call. Calls `ask`
  /// twice, first on the meta device to measure its memory. Throws if the text has more than
  /// seq_length tokens or one that is not in the vocabulary.
  Tensor run(const Sample& text, const Ask& ask);

  const ModelConfig& config() const { return config_; }
  Communicator& tp() const { return tp_; }

 private:
  ModelConfig config_;
  Communicator& tp_;
  ParameterStore store_;
  std::unique_ptr<Model> model_;
  BatchBuffers buffers_;
  DeviceBatch device_batch_;
  std::unique_ptr<Arena> arena_;
  OwnedTensor answer_;  ///< unless the device is the host
};

/// Throws, starting with `owner`, unless the model was trained for `objective`; says which command
/// to use instead.
void require_objective(const ModelConfig& config, Objective objective, std::string_view owner);

}  // namespace tessera
