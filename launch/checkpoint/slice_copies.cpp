#include "launch/checkpoint/slice_copies.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/checked.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

std::string piece_name(const std::string& tensor, const Box& box) {
  return tensor + to_string(box);
}

/// The pieces that a rank writes.
std::set<std::string> written_by(const SavePlan& plan, int rank) {
  std::set<std::string> pieces;
  for (const PlannedFile& file : plan.files_of_rank[static_cast<size_t>(rank)]) {
    for (const PlannedSlice& planned : file.slices) {
      const StoredSlice& slice = plan.tensors.at(planned.tensor).slices[planned.index];
      pieces.insert(piece_name(planned.tensor, slice.box));
    }
  }
  return pieces;
}

}  // namespace

void SliceCopies::reserve(size_t bytes, Device from) {
  if (bytes <= memory_.bytes()) return;
  memory_ = Buffer();  // so that there are never two
  memory_ = Buffer(bytes, kCpu, from.is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary);
}

void SliceCopies::touch() {
  constexpr size_t kSmallestPage = 4096;
  auto* bytes = static_cast<volatile char*>(memory_.data());
  for (size_t i = 0; i < memory_.bytes(); i += kSmallestPage) bytes[i] = 0;
}

std::vector<HeldTensor> SliceCopies::copy(const SavePlan& plan, int rank,
                                          const std::vector<HeldTensor>& tensors) {
  const std::set<std::string> pieces = written_by(plan, rank);
  std::vector<HeldTensor> copies;
  constexpr auto kAligned = static_cast<int64_t>(kAlignment);
  int64_t bytes = 0;
  Device from = kCpu;
  for (const HeldTensor& tensor : tensors) {
    if (pieces.count(piece_name(tensor.name, tensor.box)) == 0) continue;
    copies.push_back(tensor);
    bytes += round_up(narrow<int64_t>(tensor.data.bytes()), kAligned);
    if (tensor.data.device().is_cuda()) from = tensor.data.device();
  }
  reserve(narrow<size_t>(bytes), from);
  const Tensor all = memory_.tensor({narrow<int64_t>(memory_.bytes())}, DType::u8);
  int64_t begin = 0;
  for (HeldTensor& tensor : copies) {
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
