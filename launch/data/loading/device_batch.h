#pragma once

#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/token_batch.h"

namespace tessera {

/// Device memory for one micro-batch, filled from the host.
class DeviceBatch {
 public:
  /// For batches of up to this shape. Allocates nothing on the CPU.
  DeviceBatch(const BatchShape& shape, Device device);

  /// Returns the batch of `buffers` on the device: the batch itself on the CPU, otherwise an
  /// asynchronous copy that replaces the previous one in stream order.
  TokenBatch upload(BatchBuffers& buffers);

  size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

/// Returns the tensors that a batch has, in order of declaration.
template <typename Batch>
auto tensors_of(Batch& batch) {
  auto& source = batch.source;
  std::vector tensors = {&batch.tokens,      &batch.positions,    &batch.token_types,
                         &batch.padded_rows, &batch.documents,    &batch.target_rows,
                         &batch.targets,     &batch.hidden,       &batch.labels,
                         &batch.patches,     &batch.label_values, &source.tokens,
                         &source.positions,  &source.padded_rows, &source.documents};
  std::erase_if(tensors, [](const Tensor* tensor) { return !tensor->defined(); });
  return tensors;
}

}  // namespace tessera
