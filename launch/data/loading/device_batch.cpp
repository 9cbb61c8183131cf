#include "launch/data/loading/device_batch.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/cuda/copy_stream.h"
#include "core/ops/elementwise.h"
#include "launch/data/loading/batch_buffers.h"

namespace tessera {
namespace {

int64_t padded(int64_t elements) {
  return round_up(elements, static_cast<int64_t>(kAlignment / sizeof(int32_t)));
}

size_t bytes_needed(const BatchShape& shape, Device device) {
  if (!device.is_cuda()) return 0;
  const auto elements_of = [](const TokenBatch& batch) {
    int64_t elements = 0;
    for (const Tensor* tensor : tensors_of(batch)) elements += padded(tensor->numel());
    return elements;
  };
  // A diagnosis also uploads whole batches.
  const TokenBatch whole = full_batch_on_meta(shape);
  const int64_t elements =
      std::max(elements_of(whole), elements_of(cut_on_meta(whole, shape.context)));
  return static_cast<size_t>(elements) * sizeof(int32_t);
}

bool has_staging(const BatchShape& shape, Device device, bool stages) {
  return stages && device.is_cuda() && shape.patch_width > 0;
}

/// A batch in `memory`, and how much of it the batch takes.
struct Placed {
  TokenBatch batch;
  Tensor words;  ///< of 4 bytes or less
};

/// Calls copy(from, to) for each tensor.
template <typename Copy>
Placed place(const TokenBatch& batch, const Buffer& memory, Copy&& copy) {
  TokenBatch placed = batch;
  const Tensor all =
      memory.tensor({static_cast<int64_t>(memory.bytes() / sizeof(int32_t))}, DType::i32);
  int64_t begin = 0;
  for (Tensor* tensor : tensors_of(placed)) {
    const Tensor words = all.slice(begin, begin + tensor->numel());
    const Tensor on_device(words.raw(), tensor->shape(), tensor->dtype(), words.device());
    copy(*tensor, on_device);
    *tensor = on_device;
    begin += padded(tensor->numel());
  }
  return {placed, all.slice(0, begin)};
}

}  // namespace

/// The next batch, copied beside the work on the current one.
struct DeviceBatch::Staging {
  Staging(size_t bytes, Device device) : memory(bytes, device) {}

  Buffer memory;
  BatchBuffers* batch = nullptr;  ///< null if there is none
  cuda::CopyStream copies;
};

DeviceBatch::DeviceBatch(const BatchShape& shape, Device device, bool stages)
    : memory_(bytes_needed(shape, device), device),
      staging_(has_staging(shape, device, stages)
                   ? std::make_unique<Staging>(bytes_needed(shape, device), device)
                   : nullptr) {}

DeviceBatch::~DeviceBatch() = default;

size_t DeviceBatch::bytes_for(const BatchShape& shape, Device device, bool stages) {
  return bytes_needed(shape, device) * (has_staging(shape, device, stages) ? 2 : 1);
}

size_t DeviceBatch::bytes() const {
  return memory_.bytes() + (staging_ == nullptr ? 0 : staging_->memory.bytes());
}

TokenBatch DeviceBatch::upload(BatchBuffers& buffers) {
  return upload(buffers, buffers.padded_batch());
}

TokenBatch DeviceBatch::upload_whole(BatchBuffers& buffers) {
  return upload(buffers, buffers.whole());
}

TokenBatch DeviceBatch::upload(BatchBuffers& buffers, const TokenBatch& batch) {
  if (memory_.bytes() == 0) return batch;
  Placed placed;
  if (staging_ != nullptr && staging_->batch == &buffers) {
    const auto nothing = [](const Tensor&, const Tensor&) {};
    placed = place(batch, memory_, nothing);
    staging_->copies.hold_work();
    copy(place(batch, staging_->memory, nothing).words, placed.words);
    staging_->batch = nullptr;
  } else {
    placed = place(batch, memory_, [](const Tensor& from, const Tensor& to) { copy(from, to); });
  }
  buffers.uploaded().record();
  return placed.batch;
}

void DeviceBatch::stage(BatchBuffers& buffers) {
  if (staging_ == nullptr || staging_->batch != nullptr) return;
  staging_->copies.wait_for_work();  // which may still move the batch before
  place(buffers.batch(), staging_->memory, [&](const Tensor& from, const Tensor& to) {
    staging_->copies.copy(to.raw(), from.raw(), from.bytes());
  });
  staging_->batch = &buffers;
}

void DeviceBatch::discard_staged() {
  if (staging_ == nullptr || staging_->batch == nullptr) return;
  staging_->copies.hold_work();
  std::exchange(staging_->batch, nullptr)->uploaded().record();
}

}  // namespace tessera
