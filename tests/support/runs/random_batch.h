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

/// Returns a batch of full rows with some target at every token, for the logits of all of them.
inline TokenBatch with_every_target(TokenBatch batch) {
  batch.target_rows = batch.padded_rows;
  batch.targets = batch.tokens;
  return batch;
}

}  // namespace tessera::test
