#include "parallel/communicators/nccl/nccl_communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/parallel/device_mirror.h"
#include "tests/support/runs/device_ranks.h"

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
  if (the_case().name == std::string_view("messages_that_do_not_match_fail_on_both_ranks")) {
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

// In a step, sums of gradients over the data ranks are pending while tensor ranks exchange
// activations.
TEST_F(Nccl, CollectivesOfTensorAndDataRanksStartInOneOrder) {
  test::run_nccl_ranks(4, [](Communicator& world) {
    const auto tensor = world.split(world.rank() / 2, world.rank());
    const auto data = world.split(world.rank() % 2, world.rank());
    constexpr int kLayers = 8;
    const OwnedTensor activations({64}, DType::f32, gpu_of(world));
    const OwnedTensor gradients({kLayers, 64}, DType::f32, gpu_of(world));
    fill(activations.tensor, 1.0);
    fill(gradients.tensor, 1.0);
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int layer = 0; layer < kLayers; ++layer) {
      tensor->all_reduce(activations.tensor);
      pending.push_back(data->all_reduce_async(gradients.tensor.slice(layer, layer + 1)));
    }
    for (const auto& one : pending) one->wait();
    const OwnedTensor sums({kLayers, 64}, DType::f32);
    copy(gradients.tensor, sums.tensor);
    expect_elements<float>(
        sums.tensor, [](int64_t) { return 2.0; }, who(world));
  });
}

/// The bits of repeated sums of the ranks' numbers, of which four in a row have very different
/// sizes.
std::vector<std::vector<float>> repeated_sums(
    const std::function<void(Communicator&, Tensor)>& sum) {
  constexpr int64_t kCount = 1024;
  std::vector<std::vector<float>> results(8);
  test::run_nccl_ranks(4, [&](Communicator& world) {
    const OwnedTensor values({kCount}, DType::f32), device({kCount}, DType::f32, gpu_of(world));
    for (std::vector<float>& result : results) {
      for (int64_t i = 0; i < kCount; ++i) {
        const auto mixed = static_cast<float>((i * 37 + world.rank() * 11) % 101 - 50);
        values.tensor.data<float>()[i] = std::ldexp(mixed, static_cast<int>(i % 4) * 8) / 3.0f;
      }
      copy(values.tensor, device.tensor);
      sum(world, device.tensor);
      copy(device.tensor, values.tensor);
      const float* first = values.tensor.data<float>();
      if (world.rank() == 1) result.assign(first, first + kCount);
    }
  });
  return results;
}

TEST_F(Nccl, RepeatedSumsHaveSameBits) {
  const std::function<void(Communicator&, Tensor)> kinds[] = {
      [](Communicator& world, const Tensor& sums) { world.all_reduce(sums); },
      [](Communicator& world, const Tensor& sums) {
        const int64_t part = sums.numel() / world.size();
        world.reduce_scatter(sums, sums.slice(world.rank() * part, (world.rank() + 1) * part));
      }};
  for (const auto& kind : kinds) {
    const auto results = repeated_sums(kind);
    for (const std::vector<float>& result : results) EXPECT_EQ(result, results[0]);
  }
}

}  // namespace
}  // namespace tessera
