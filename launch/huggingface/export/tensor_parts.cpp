#include "launch/huggingface/export/tensor_parts.h"

#include <algorithm>

namespace tessera {

void copy_part(const TensorName& name, size_t part, const Tensor& ours, const Tensor& theirs) {
  int64_t first = 0;
  for (size_t before = 0; before < part; ++before) {
    first += name.theirs[before].shape.numel() / name.groups;
  }
  const int64_t group = ours.numel() / name.groups, count = theirs.numel() / name.groups;
  for (int64_t i = 0; i < name.groups; ++i) {
    std::copy_n(ours.data<float>() + i * group + first, count, theirs.data<float>() + i * count);
  }
}

}  // namespace tessera
