#include "parallel/communicators/nccl/nccl_communicator.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/parallel/device_mirror.h"
#include "tests/support/device_ranks.h"

namespace tessera {
namespace {

Device gpu_of(const Communicator& world) {
  return {DeviceType::cuda, static_cast<int8_t>(world.rank())};
}

// --- cases for all communicators

class NcclCases : public ::testing::TestWithParam<std::tuple<CommunicatorCase, int>> {
 protected:
  void SetUp() override {
    if (!test::can_run_nccl_ranks(size())) GTEST_SKIP() << "there are too few GPUs";
  }
  static const CommunicatorCase& the_case() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }
};

TEST_P(NcclCases, HoldForGpuTensors) {
  if (the_case().name == std::string_view("a_message_of_another_size_is_an_error")) {
    GTEST_SKIP() << "NCCL does not compare sizes";
  }
  if constexpr (kHasNccl) {
    test::run_nccl_ranks(size(), [&](Communicator& world) {
      the_case().body(*make_device_mirror(world.split(0, world.rank()), gpu_of(world)));
    });
  }
}

TEST_P(NcclCases, HoldForHostTensors) {
  test::run_nccl_ranks(size(), [&](Communicator& world) { the_case().body(world); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclCases,
                         ::testing::Combine(::testing::ValuesIn(communicator_cases()),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of_case);

// --- NCCL only

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_run_nccl_ranks(4)) GTEST_SKIP() << "there are too few GPUs";
  }
};

TEST_F(Nccl, HostDoesNotWaitForOtherRanks) {
  test::run_nccl_ranks(3, [](Communicator& world) {
    const OwnedTensor numbers({1001}, DType::f32, gpu_of(world));
    world.all_reduce(numbers.tensor);  // connects the ranks
    const OwnedTensor values = filled<float>(1001, world.rank());
    copy(values.tensor, numbers.tensor);
    if (world.rank() > 0) {
      world.all_reduce(numbers.tensor);
      world.barrier();  // rank 0 gets here before its sum
    } else {
      world.barrier();
      world.all_reduce(numbers.tensor);
    }
    copy(numbers.tensor, values.tensor);
    expect_elements<float>(
        values.tensor, [](int64_t i) { return sum_of_values(3, i); }, who(world));
  });
}

}  // namespace
}  // namespace tessera
