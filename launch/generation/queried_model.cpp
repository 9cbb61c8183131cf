#include "launch/generation/queried_model.h"

#include "launch/data/loading/device_batch.h"

namespace tessera {

TokenBatch on_meta(TokenBatch batch) {
  for (Tensor* tensor : tensors_of(batch)) {
    *tensor = Tensor(nullptr, tensor->shape(), tensor->dtype(), kMeta);
  }
  return batch;
}

}  // namespace tessera
