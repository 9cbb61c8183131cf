#include "launch/data/loading/device_batch.h"

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"

namespace tessera {
namespace {

int64_t padded(int64_t elements) {
  return round_up(elements, static_cast<int64_t>(kAlignment / sizeof(int32_t)));
}

size_t bytes_needed(const BatchShape& shape, Device device) {
  if (!device.is_cuda()) return 0;
  const TokenBatch largest = full_batch_on_meta(shape);
  int64_t elements = 0;
  for (const Tensor* tensor : tensors_of(largest)) elements += padded(tensor->numel());
  return static_cast<size_t>(elements) * sizeof(int32_t);
}

}  // namespace

DeviceBatch::DeviceBatch(const BatchShape& shape, Device device)
    : memory_(bytes_needed(shape, device), device) {}

TokenBatch DeviceBatch::upload(BatchBuffers& buffers) {
  const TokenBatch batch = buffers.batch();
  if (memory_.bytes() == 0) return batch;
  TokenBatch result = batch;
  const Tensor all =
      memory_.tensor({static_cast<int64_t>(memory_.bytes() / sizeof(int32_t))}, DType::i32);
  int64_t begin = 0;
  for (Tensor* tensor : tensors_of(result)) {
    const Tensor words = all.slice(begin, begin + tensor->numel());  // of 4 bytes or less
    const Tensor on_device(words.raw(), tensor->shape(), tensor->dtype(), words.device());
    copy(*tensor, on_device);
    *tensor = on_device;
    begin += padded(tensor->numel());
  }
  buffers.uploaded().record();
  return result;
}

}  // namespace tessera
