#include "launch/checkpoint/save/slice_copies.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/checked.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

/// The slices that the plan assigns to a rank, by tensor name.
std::multimap<std::string, Box> slices_of(SavePlan& plan, int rank) {
  std::multimap<std::string, Box> slices;
  for (const PlannedFile& file : plan.files_of_rank[static_cast<size_t>(rank)]) {
    for (const PlannedSlice& slice : file.slices) {
      slices.emplace(slice.tensor, plan.slice(slice).box);
    }
  }
  return slices;
}

bool has(const std::multimap<std::string, Box>& slices, const LocalTensor& tensor) {
  const auto [begin, end] = slices.equal_range(tensor.name);
  return std::any_of(begin, end, [&](const auto& slice) { return slice.second == tensor.box; });
}

}  // namespace

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

std::vector<LocalTensor> SliceCopies::copy(SavePlan& plan, int rank,
                                           const std::vector<LocalTensor>& tensors) {
  const std::multimap<std::string, Box> slices = slices_of(plan, rank);
  std::vector<LocalTensor> copies;
  constexpr auto kAligned = static_cast<int64_t>(kAlignment);
  int64_t bytes = 0;
  Device from = kCpu;
  for (const LocalTensor& tensor : tensors) {
    if (!has(slices, tensor)) continue;
    copies.push_back(tensor);
    bytes += round_up(narrow<int64_t>(tensor.data.bytes()), kAligned);
    if (tensor.data.device().is_cuda()) from = tensor.data.device();
  }
  reserve(narrow<size_t>(bytes), from);
  const Tensor all = memory_.tensor({narrow<int64_t>(memory_.bytes())}, DType::u8);
  int64_t begin = 0;
  for (LocalTensor& tensor : copies) {
    const Tensor source = tensor.make ? tensor.make() : tensor.data;
    const auto size = narrow<int64_t>(source.bytes());
    const Tensor place = all.slice(begin, begin + size);
    tensor.data = Tensor(place.raw(), source.shape(), source.dtype(), kCpu);
    tensor.make = {};
    tessera::copy(source, tensor.data);
    begin += round_up(size, kAligned);
  }
  return copies;
}

}  // namespace tessera
