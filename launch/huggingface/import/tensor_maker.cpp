#include "launch/huggingface/import/tensor_maker.h"

#include <algorithm>

#include "launch/huggingface/transpose.h"

namespace tessera {

Tensor TensorMaker::make(const TensorName& name) {
  made_ = {};  // freed before the next is allocated
  made_ = OwnedTensor(name.shape, DType::f32);
  const auto out = made_.tensor.span<float>();
  const size_t group = out.size() / static_cast<size_t>(name.groups);
  size_t first = 0;  // of this part within each group
  for (const TheirTensor& theirs : name.theirs) {
    const std::string& stored = stored_.at(theirs.name);
    const size_t count = static_cast<size_t>(theirs.shape.numel() / name.groups);
    if (name.unused_rows > 0) {
      read_rows(stored, theirs.shape, name.unused_rows, out);
    } else if (name.transposed) {
      read_transposed(stored, theirs.shape, out);
    } else if (name.groups == 1) {
      weights_.read(stored, out.subspan(first, count));
    } else {
      read_groups(stored, theirs.shape, count, out.subspan(first), group);
    }
    first += count;
  }
  return made_.tensor;
}

void TensorMaker::read_transposed(const std::string& stored, const Shape& shape,
                                  std::span<float> out) const {
  const OwnedTensor read(shape, DType::f32);
  weights_.read(stored, read.tensor.span<float>());
  transpose(read.tensor.data<float>(), shape[0], shape[1], out.data());
}

void TensorMaker::read_rows(const std::string& stored, const Shape& shape, int64_t first,
                            std::span<float> out) const {
  const OwnedTensor read(shape, DType::f32);
  weights_.read(stored, read.tensor.span<float>());
  std::ranges::copy(read.tensor.slice(first, shape[0]).span<float>(), out.begin());
}

void TensorMaker::read_groups(const std::string& stored, const Shape& shape, size_t count,
                              std::span<float> out, size_t group) const {
  const OwnedTensor read(shape, DType::f32);
  const std::span<float> all = read.tensor.span<float>();
  weights_.read(stored, all);
  for (size_t i = 0; i * count < all.size(); ++i) {
    std::ranges::copy(all.subspan(i * count, count), out.subspan(i * group).begin());
  }
}

}  // namespace tessera
