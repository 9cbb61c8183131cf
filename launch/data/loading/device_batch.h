#pragma once

#include <array>
#include <cstdint>

#include "core/memory.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/token_batch.h"

namespace tessera {

/// Device memory for one micro-batch, filled from the host.
class DeviceBatch {
 public:
  /// For batches of up to B rows of T tokens, as in BatchBuffers. Allocates nothing on the CPU.
  DeviceBatch(int64_t sequences, int64_t seq_length, Device device, int64_t label_width = 0);

  /// Returns the batch of `buffers` on the device: the batch itself on the CPU, otherwise an
  /// asynchronous copy that replaces the previous one in stream order.
  TokenBatch upload(BatchBuffers& buffers);

  size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

/// Returns the tensors of a batch, in order of declaration.
template <typename Batch>
auto tensors_of(Batch& batch) {
  return std::array{&batch.tokens,      &batch.positions, &batch.token_types,
                    &batch.padded_rows, &batch.documents, &batch.target_rows,
                    &batch.targets,     &batch.labels,    &batch.label_values};
}

}  // namespace tessera
