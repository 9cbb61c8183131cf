#include "parallel/communicators/staged/staged_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/parallel/device_mirror.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr Device kGpu{DeviceType::cuda, 0};

bool no_gpu() {
  if constexpr (kHasCuda) return cuda::device_count() == 0;
  return true;
}

std::unique_ptr<Communicator> staged(Communicator& host, size_t piece_bytes = kStagedPieceBytes) {
  if constexpr (kHasCuda) {
    return make_staged_communicator(host.split(0, host.rank()), piece_bytes);
  }
  fail("this build has no CUDA support");
}

std::unique_ptr<Communicator> mirrored(std::unique_ptr<Communicator> inner) {
  if constexpr (kHasCuda) return make_device_mirror(std::move(inner));
  return inner;
}

// --- cases for all communicators, on a GPU shared by the thread ranks

class StagedCases : public ::testing::TestWithParam<std::tuple<CommunicatorCase, int>> {
 protected:
  void SetUp() override {
    if (no_gpu()) GTEST_SKIP() << "there is no GPU";
  }
};

TEST_P(StagedCases, HoldForGpuTensors) {
  const auto& [the_case, size] = GetParam();
  run_thread_ranks(size, [&](Communicator& world) { the_case.body(*mirrored(staged(world))); });
}

// Pieces of 10,000 bytes: the largest tensors need more pieces than may be pending.
TEST_P(StagedCases, HoldForGpuTensorsInPieces) {
  const auto& [the_case, size] = GetParam();
  run_thread_ranks(size,
                   [&](Communicator& world) { the_case.body(*mirrored(staged(world, 10007))); });
}

TEST_P(StagedCases, HoldForHostTensors) {
  const auto& [the_case, size] = GetParam();
  run_thread_ranks(size, [&](Communicator& world) { the_case.body(*staged(world)); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedCases,
                         ::testing::Combine(::testing::ValuesIn(communicator_cases()),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of_case);

// --- staged communicators only

class Staged : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_gpu()) GTEST_SKIP() << "there is no GPU";
  }
};

TEST_F(Staged, NameIncludesHostCommunicator) {
  run_thread_ranks(2, [](Communicator& world) {
    const auto communicator = staged(world);
    EXPECT_EQ(communicator->name(), "thread, staged");
    EXPECT_EQ(communicator->split(0, 0)->name(), "thread, staged");
  });
}

TEST_F(Staged, HostTensorsOverlapWithPendingGpuTensors) {
  run_thread_ranks(3, [](Communicator& world) {
    const auto communicator = staged(world, 64);
    const OwnedTensor values = filled<float>(1001, world.rank());
    const OwnedTensor on_gpu({1001}, DType::f32, kGpu);
    const OwnedTensor on_host = filled<float>(1001, world.rank());
    copy(values.tensor, on_gpu.tensor);
    const auto first = communicator->all_reduce_async(on_gpu.tensor);
    const auto second = communicator->all_reduce_async(on_host.tensor);
    communicator->barrier();
    second->wait();
    first->wait();
    copy(on_gpu.tensor, values.tensor);
    const auto sum = [&](int64_t i) { return sum_of_values(3, i); };
    expect_elements<float>(values.tensor, sum, who(world));
    expect_elements<float>(on_host.tensor, sum, who(world));
  });
}

TEST_F(Staged, ThrowingRankFreesOthersFromPendingCollectives) {
  std::string message;
  try {
    run_thread_ranks(3, [](Communicator& world) {
      const auto communicator = staged(world, 64);
      const OwnedTensor on_gpu({1001}, DType::f32, kGpu);
      const auto pending = communicator->all_reduce_async(on_gpu.tensor.slice(0, 10));
      if (world.rank() == 2) fail("the real error");
      communicator->all_reduce(on_gpu.tensor.slice(10, 1001));
      pending->wait();
    });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "the real error");
}

TEST_F(Staged, MismatchedCollectivesAreNamed) {
  std::string message;
  try {
    run_thread_ranks(2, [](Communicator& world) {
      const auto communicator = staged(world);
      const OwnedTensor on_gpu({3 + world.rank()}, DType::f32, kGpu);
      communicator->all_reduce(on_gpu.tensor);
    });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("all_reduce"));
}

TEST_F(Staged, OtherCommunicatorsRefuseGpuTensors) {
  const OwnedTensor on_gpu({3}, DType::f32, kGpu);
  try {
    make_self_communicator()->all_reduce(on_gpu.tensor);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a communicator of kind self cannot move it"));
  }
}

}  // namespace
}  // namespace tessera
