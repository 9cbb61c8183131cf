#pragma once

#include "core/arena.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/model_state.h"
#include "launch/data/loading/device_batch.h"
#include "launch/train/dry_run.h"
#include "models/model.h"

namespace tessera {

/// A checkpoint's model in fp32 or bf16, of which this rank has a shard, and memory to evaluate
/// micro-batches of a shape.
class EvalModel {
 public:
  /// Throws if the model cannot be split over the ranks of `tp`, or if the checkpoint is damaged.
  EvalModel(Checkpoint& checkpoint, const ModelConfig& config, const BatchShape& shape,
            Communicator& tp, Device device, DType precision)
      : model_(config, store_, tp),
        arena_(device, plan_evaluation_arena(config, precision, shape.sequences, tp)),
        device_batch_(shape, device) {
    store_.allocate(device, precision, StoreFor::inference);
    load_weights(checkpoint, store_);
  }

  Model& model() { return model_; }
  Arena& arena() { return arena_; }
  DeviceBatch& device_batch() { return device_batch_; }

 private:
  ParameterStore store_;
  Model model_;
  Arena arena_;
  DeviceBatch device_batch_;
};

}  // namespace tessera
