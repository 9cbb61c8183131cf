// Grids that follow the number of multiprocessors, and ranks on GPUs with different numbers.

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/cuda/runtime.h"
#include "core/ops/elementwise.h"
#include "core/ops/layer_norm.h"
#include "launch/devices/open_devices.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/emulator/grid.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr Device kGpu{DeviceType::cuda, 0};

OwnedTensor copied(const Tensor& from, Device device) {
  OwnedTensor to(from.shape(), from.dtype(), device);
  copy(from, to.tensor);
  cuda::synchronize();
  return to;
}

struct NormGradients {
  OwnedTensor dx, dweight, dbias;  // on the host
  unsigned blocks;
};

/// The gradients of a norm of 400 random rows on a GPU with `multiprocessors`.
NormGradients norm_gradients(int64_t columns, int multiprocessors) {
  constexpr int64_t kRows = 400;
  cuda::use_device(0);
  cuda::use_multiprocessors(multiprocessors);
  const auto random = [](const Shape& shape, uint64_t seed) {
    return copied(random_tensor(shape, DType::bf16, seed).tensor, kGpu);
  };
  const OwnedTensor x = random({kRows, columns}, 1), dy = random({kRows, columns}, 2);
  const OwnedTensor weight = random({columns}, 3);
  const OwnedTensor out({kRows, columns}, DType::bf16, kGpu);
  const OwnedTensor mean({kRows}, DType::f32, kGpu), rstd({kRows}, DType::f32, kGpu);
  const OwnedTensor dweight({columns}, DType::f32, kGpu), dbias({columns}, DType::f32, kGpu);
  layer_norm_forward(x.tensor, weight.tensor, {}, 1e-5f, out.tensor, mean.tensor, rstd.tensor);
  layer_norm_backward(dy.tensor, x.tensor, weight.tensor, mean.tensor, rstd.tensor, {}, out.tensor,
                      dweight.tensor, dbias.tensor);
  cuda::synchronize();
  const unsigned blocks = emulator::last_grids().at("layer_norm_backward").x;
  cuda::use_device(0);
  return {copied(out.tensor, kCpu), copied(dweight.tensor, kCpu), copied(dbias.tensor, kCpu),
          blocks};
}

TEST(Multiprocessors, NormGradientFillsEachOnce) {
  // Warps share blocks up to 1024 columns; 768 are three packs per lane, of which more fit.
  EXPECT_EQ(norm_gradients(768, 2).blocks, 8u);
  EXPECT_EQ(norm_gradients(768, 5).blocks, 20u);
  EXPECT_EQ(norm_gradients(1024, 5).blocks, 15u);
  // 256 threads per row.
  EXPECT_EQ(norm_gradients(4096, 3).blocks, 6u);
  EXPECT_EQ(norm_gradients(4096, 7).blocks, 14u);
}

TEST(Multiprocessors, ChangeOnlyTheOrderOfNormSums) {
  for (const int64_t columns : {768, 4096}) {
    const NormGradients g = norm_gradients(columns, 3), same = norm_gradients(columns, 3);
    const NormGradients other = norm_gradients(columns, 4);
    expect_same_bits(same.dweight.tensor, g.dweight.tensor, "dweight");
    expect_same_bits(same.dbias.tensor, g.dbias.tensor, "dbias");
    expect_same_bits(other.dx.tensor, g.dx.tensor, "dx");
    const double tolerance = sum_tolerance(DType::f32, 400);
    expect_close(other.dweight.tensor, to_doubles(g.dweight.tensor), tolerance, "dweight");
    expect_close(other.dbias.tensor, to_doubles(g.dbias.tensor), tolerance, "dbias");
  }
}

// Otherwise replicated parameters would drift apart between GPUs of different types.
TEST(Multiprocessors, RanksAgreeOnTheFewest) {
  ASSERT_GE(cuda::device_count(), 3);
  setenv("TESSERA_EMULATOR_MULTIPROCESSORS", "8,6,7", /*replace=*/1);
  run_thread_ranks(3, [](Communicator& world) {
    const OpenedDevices opened = open_devices({DeviceChoice::cuda, Backend::mpi}, world);
    constexpr int kOfRank[] = {8, 6, 7};
    EXPECT_EQ(cuda::device_info(opened.device.index).multiprocessors, kOfRank[world.rank()]);
    EXPECT_EQ(cuda::multiprocessors(), 6);
    EXPECT_NE(opened.note.find("emulated GPU with 6 multiprocessors"), std::string::npos);
  });
  unsetenv("TESSERA_EMULATOR_MULTIPROCESSORS");
}

}  // namespace
}  // namespace tessera
