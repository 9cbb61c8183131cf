#pragma once

#include "core/ops/elementwise.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// A copy of `tensor` whose address is `offset` elements past an address aligned for packs.
struct Shifted {
  Shifted(const Tensor& tensor, int64_t offset)
      : memory({tensor.numel() + offset}, tensor.dtype()),
        view(memory.tensor.slice(offset, offset + tensor.numel()).view(tensor.shape())) {
    copy(tensor, view);
  }
  TestTensor memory;
  Tensor view;
};

}  // namespace tessera::test
