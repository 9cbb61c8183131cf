#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/token_batch.h"

namespace tessera {

/// Device memory for one micro-batch, filled from the host.
class DeviceBatch {
 public:
  /// For batches of up to this shape. Allocates nothing on the CPU. With `stages`, batches of
  /// images have memory for the next one, too.
  DeviceBatch(const BatchShape& shape, Device device, bool stages = false);
  ~DeviceBatch();
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  /// The memory it takes.
  static size_t bytes_for(const BatchShape& shape, Device device, bool stages);

  /// Returns padded_batch() of `buffers` on the device: the batch itself on the CPU, otherwise an
  /// asynchronous copy that replaces the previous one in stream order.
  TokenBatch upload(BatchBuffers& buffers);
  /// The same of BatchBuffers::whole(), without padding.
  TokenBatch upload_whole(BatchBuffers& buffers);

  /// Starts to copy the batch while the GPU works, so that its upload() only moves it within the
  /// GPU: images would otherwise delay each micro-batch by milliseconds. Does nothing without
  /// memory for it, or if a staged batch has not been uploaded.
  void stage(BatchBuffers& buffers);
  /// Forgets a staged batch that will not be uploaded, so that its buffers may be filled again.
  void discard_staged();

  size_t bytes() const;

 private:
  struct Staging;

  TokenBatch upload(BatchBuffers& buffers, const TokenBatch& batch);

  Buffer memory_;
  std::unique_ptr<Staging> staging_;  ///< null without memory for the next batch
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
  for (auto* cut : {&batch.cut, &source.cut}) {
    tensors.insert(tensors.end(), {&cut->gathered, &cut->documents, &cut->own_documents,
                                   &cut->padded_rows, &cut->hidden, &cut->counted, &cut->halo.sent,
                                   &cut->halo.received, &cut->halo.own});
  }
  std::erase_if(tensors, [](const Tensor* tensor) { return !tensor->defined(); });
  return tensors;
}

}  // namespace tessera
