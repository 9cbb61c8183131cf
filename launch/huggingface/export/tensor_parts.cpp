#include "launch/huggingface/export/tensor_parts.h"

#include <algorithm>

#include "core/ops/elementwise.h"
#include "launch/huggingface/transpose.h"

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

OwnedTensor TensorPartReader::read(const TensorName& name, size_t part) const {
  OwnedTensor result(name.theirs[part].shape, DType::f32);
  if (name.ours.empty()) {
    fill(result.tensor, 0.0);
    return result;
  }
  if (name.unused_rows > 0) {
    fill(result.tensor, 0.0);
    const Tensor used = result.tensor.slice(name.unused_rows, result.tensor.dim(0));
    weights_.read(name.ours, name.shape, used);
    return result;
  }
  if (name.theirs.size() == 1 && !name.transposed) {
    weights_.read(name.ours, name.shape, result.tensor.view(name.shape));
    return result;
  }
  const OwnedTensor ours(name.shape, DType::f32);
  weights_.read(name.ours, name.shape, ours.tensor);
  if (name.transposed) {
    const int64_t columns = name.shape[-1];
    transpose(ours.tensor.data<float>(), ours.tensor.numel() / columns, columns,
              result.tensor.data<float>());
  } else {
    copy_part(name, part, ours.tensor, result.tensor);
  }
  return result;
}

}  // namespace tessera
