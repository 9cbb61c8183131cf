#pragma once

#include <array>
#include <cstdint>

#include "core/memory.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/token_batch.h"

namespace tessera {

/// Memory for one micro-batch on the device of a model, into which batches are copied from the
/// host.
class DeviceBatch {
 public:
  /// For batches of up to B rows of T tokens. On the CPU it has no memory.
  DeviceBatch(int64_t sequences, int64_t seq_length, Device device);

  /// The batch of `buffers` on the device: on the CPU itself, else a copy that replaces the one
  /// before in the order of the device's work, and is under way when this returns.
  TokenBatch upload(BatchBuffers& buffers);

  size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

/// The tensors of a batch, in the order of their declaration.
template <typename Batch>
auto tensors_of(Batch& batch) {
  return std::array{&batch.tokens,    &batch.positions,   &batch.token_types, &batch.padded_rows,
                    &batch.documents, &batch.target_rows, &batch.targets,     &batch.labels};
}

}  // namespace tessera
