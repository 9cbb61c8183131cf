#pragma once

#include <cstdint>

#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "models/model_config.h"
#include "models/token_batch.h"

namespace tessera::test {

/// A batch of random tokens or images for any model, on test_device(): rows of one document, as
/// long as the model allows, with targets, labels and sources as its heads need them.
class RandomBatch {
 public:
  RandomBatch(const ModelConfig& model, int64_t rows, uint64_t seed);

  TokenBatch batch;

 private:
  BatchBuffers buffers_;
  DeviceBatch on_device_;
};

}  // namespace tessera::test
