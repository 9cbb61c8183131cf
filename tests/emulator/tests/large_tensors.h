#pragma once

// Kernels on tensors of more than 2³² elements, so that an index of 32 bits, signed or not, reaches
// another element. Only the last blocks of each grid run, and only the pages that they access take
// memory. The last row is random, all others are zero, and the results must have the bits of a
// small tensor that consists of the last row.

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"
#include "core/cuda/workspace.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/grid.h"
#include "tests/support/tensors.h"

namespace tessera::test {

using emulator::OnlyLastBlocks;

inline constexpr Device kGpu{DeviceType::cuda, 0};
inline constexpr int64_t k2To20 = int64_t{1} << 20, k2To32 = int64_t{1} << 32;

/// A tensor of zeros on the GPU that takes memory only where it is written.
class SparseTensor {
 public:
  SparseTensor(const Shape& shape, DType dtype) {
    const auto bytes = static_cast<size_t>(round_up(
        Tensor(nullptr, shape, dtype, kMeta).numel() * static_cast<int64_t>(size_of(dtype)), 256));
    data_ = emulator::allocate_sparse_device(bytes, 0);
    if (data_ == nullptr) throw std::bad_alloc();
    tensor = Tensor(data_, shape, dtype, kGpu);
  }
  ~SparseTensor() { emulator::free_device(data_); }
  SparseTensor(const SparseTensor&) = delete;
  SparseTensor& operator=(const SparseTensor&) = delete;

  Tensor tensor;

 private:
  void* data_ = nullptr;
};

/// The last row: element of the outermost dim.
inline Tensor end_of(const Tensor& tensor) {
  return tensor.slice(tensor.dim(0) - 1, tensor.dim(0));
}

inline OwnedTensor on_gpu(const Tensor& host) {
  OwnedTensor result(host.shape(), host.dtype(), kGpu);
  copy(host, result.tensor);
  cuda::synchronize();
  return result;
}

inline OwnedTensor on_host(const Tensor& tensor) {
  OwnedTensor result(tensor.shape(), tensor.dtype(), kCpu);
  copy(tensor, result.tensor);
  return result;
}

/// A large tensor, and a small one that consists of its last row.
struct Both {
  Both(const Shape& shape, DType dtype)
      : large(shape, dtype), small(end_of(large.tensor).shape(), dtype, kGpu) {}
  /// With the same random numbers in the last row.
  Both(const Shape& shape, DType dtype, uint64_t seed) : Both(shape, dtype) {
    set(random_tensor(small.tensor.shape(), dtype, seed).tensor);
  }

  void set(const Tensor& row) {
    copy(row, small.tensor);
    copy(small.tensor, end_of(large.tensor));
    cuda::synchronize();
  }

  /// Expects that the last rows have the same bits, and are not only zeros.
  void expect_same(const char* what) const {
    const OwnedTensor actual = on_host(end_of(large.tensor)), expected = on_host(small.tensor);
    expect_same_bits(actual.tensor, expected.tensor, what);
    const std::vector<double> values = to_doubles(expected.tensor);
    EXPECT_TRUE(std::ranges::any_of(values, [](double x) { return x != 0.0; })) << what;
  }

  SparseTensor large;
  OwnedTensor small;
};

/// Runs `op` on the small tensors, then on the large ones, of whose grids only the last `blocks`
/// run.
template <typename Op>
void run_both(const Op& op, uint64_t blocks = 1, std::vector<std::string> whole = {}) {
  op([](const Both& both) { return both.small.tensor; });
  cuda::synchronize();
  const OnlyLastBlocks only(blocks, std::move(whole));
  op([](const Both& both) { return both.large.tensor; });
  cuda::synchronize();
}

class LargeTensors : public ::testing::Test {
 protected:
  void SetUp() override { cuda::use_device(0); }
};
class LargeTensorsOf : public LargeTensors, public ::testing::WithParamInterface<DType> {};

/// A dropout in which the last row of `tensor` has the same index for both tensors.
inline Dropout dropout_of(const Tensor& tensor, RandomPurpose purpose, int64_t rows) {
  Dropout dropout;
  dropout.probability = 0.5f;
  dropout.key = {1, purpose, 2, 3};
  dropout.first_row = rows - tensor.dim(0);
  return dropout;
}

/// Zeros in the scratch memory, for partial sums of blocks that do not run.
inline void clear_workspace(size_t bytes) {
  cuda::check(cudaMemsetAsync(cuda::workspace(bytes), 0, bytes, cuda::stream()), "clear");
}

/// A matrix of more than `numbers` elements.
inline Shape rows_of(int64_t columns, int64_t numbers = k2To32) {
  return {numbers / columns + 16, columns};
}

/// One fp32 number per row.
struct PerRow : Both {
  explicit PerRow(const Shape& rows) : Both({rows[0]}, DType::f32) {}
  PerRow(const Shape& rows, uint64_t seed) : Both({rows[0]}, DType::f32, seed) {}
};

}  // namespace tessera::test
