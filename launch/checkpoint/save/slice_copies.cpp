#include "launch/checkpoint/save/slice_copies.h"

#include <utility>

#include "core/checked.h"
#include "core/ops/elementwise.h"

namespace tessera {

void SliceCopies::reserve(size_t bytes, Device from) {
  if (bytes <= memory_.bytes()) return;
  memory_ = Buffer();  // frees the old buffer first
  memory_ = Buffer(bytes, kCpu, from.is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary);
}

void SliceCopies::touch() {
  constexpr size_t kSmallestPage = 4096;
  auto* bytes = static_cast<volatile char*>(memory_.data());
  for (size_t i = 0; i < memory_.bytes(); i += kSmallestPage) bytes[i] = 0;
}

std::vector<LocalTensor> SliceCopies::copy(std::vector<LocalTensor> tensors) {
  constexpr auto kAligned = static_cast<int64_t>(kAlignment);
  int64_t bytes = 0;
  Device from = kCpu;
  for (const LocalTensor& tensor : tensors) {
    bytes += round_up(narrow<int64_t>(tensor.data.bytes()), kAligned);
    if (tensor.data.device().is_cuda()) from = tensor.data.device();
  }
  reserve(narrow<size_t>(bytes), from);
  const Tensor all = memory_.tensor({narrow<int64_t>(memory_.bytes())}, DType::u8);
  int64_t begin = 0;
  for (LocalTensor& tensor : tensors) {
    const Tensor source = tensor.make ? tensor.make() : tensor.data;
    const auto size = narrow<int64_t>(source.bytes());
    const Tensor place = all.slice(begin, begin + size);
    tensor.data = Tensor(place.raw(), source.shape(), source.dtype(), kCpu);
    tensor.make = {};
    tessera::copy(source, tensor.data);
    begin += round_up(size, kAligned);
  }
  return tensors;
}

}  // namespace tessera
