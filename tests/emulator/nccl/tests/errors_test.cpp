// When NCCL fails on one rank, all of Tessera's ranks end, and the message names the failure.

#include <gmock/gmock.h>

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/nccl/nccl_communicator.h"
#include "parallel/communicators/nccl/nccl_environment.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/emulator/nccl/faults.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 4;

/// The first error of ranks that run `body` with a GPU each.
std::string error_of(const std::function<void(Communicator& world)>& body) {
  set_nccl_environment(/*deterministic=*/true);
  try {
    run_thread_ranks(kRanks, [&](Communicator& host) {
      cuda::use_device(host.rank());
      const auto world = make_nccl_communicator(host.split(0, host.rank()));
      body(*world);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

OwnedTensor numbers(const Communicator& world) {
  return {{1024}, DType::f32, {DeviceType::cuda, static_cast<int8_t>(world.rank())}};
}

/// Matches the message of the failing rank, not those of ranks that lost a peer.
auto tells_of_the_failure() {
  return AllOf(HasSubstr("NCCL failed on rank 2 of 4: unhandled system error"),
               HasSubstr("a fault injected by a test"));
}

auto names_the_failure(const char* operation) {
  return AllOf(HasSubstr(operation), HasSubstr("of fp32 (1024) on cuda:"), tells_of_the_failure());
}

TEST(NcclErrors, ConnectionErrorThrowsOnAllRanks) {
  const emulator::NcclFault fault(2, -1, ncclSystemError);
  EXPECT_THAT(error_of([](Communicator&) {}),
              AllOf(HasSubstr("the connection of the ranks: NCCL failed"), tells_of_the_failure()));
}

TEST(NcclErrors, ErrorInFirstCollectiveEndsAllRanks) {
  const emulator::NcclFault fault(2, 0, ncclSystemError);
  EXPECT_THAT(error_of([](Communicator& world) { world.all_reduce(numbers(world).tensor); }),
              names_the_failure("all_reduce"));
}

TEST(NcclErrors, ErrorInLaterCollectiveEndsRanksWaitingForGpu) {
  for (const char* lazy : {"0", "1"}) {
    const cuda::Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    const emulator::NcclFault fault(2, 5, ncclSystemError);
    EXPECT_THAT(error_of([](Communicator& world) {
                  const OwnedTensor sums = numbers(world);
                  for (int i = 0; i < 10; ++i) world.all_reduce(sums.tensor);
                  cuda::synchronize();
                }),
                names_the_failure("all_reduce"));
  }
}

// Launches follow a collective that cannot end, until the GPU's queue would be full.
TEST(NcclErrors, ErrorEndsRanksThatLaunchOn) {
  for (const char* lazy : {"0", "1"}) {
    const cuda::Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    const emulator::NcclFault fault(2, 1, ncclSystemError);
    EXPECT_THAT(error_of([](Communicator& world) {
                  const OwnedTensor sums = numbers(world), own = numbers(world);
                  for (int i = 0; i < 2; ++i) world.all_reduce(sums.tensor);
                  for (int i = 0; i < 3000; ++i) scale(own.tensor, 1.0f, own.tensor);
                  cuda::synchronize();
                }),
                tells_of_the_failure());
  }
}

// As a lazily loaded kernel or an allocation may block them, where no check runs.
TEST(NcclErrors, ErrorEndsRanksThatTheDriverBlocks) {
  for (const char* lazy : {"0", "1"}) {
    const cuda::Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    const emulator::NcclFault fault(2, 1, ncclSystemError);
    EXPECT_THAT(error_of([](Communicator& world) {
                  const OwnedTensor sums = numbers(world);
                  for (int i = 0; i < 2; ++i) world.all_reduce(sums.tensor);
                  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
                  cuda::synchronize();
                }),
                tells_of_the_failure());
  }
}

TEST(NcclErrors, ErrorInOneGroupEndsOtherGroups) {
  const emulator::NcclFault fault(1, 3, ncclSystemError);
  const std::string message = error_of([](Communicator& world) {
    const auto pair = world.split(world.rank() / 2, world.rank());
    const OwnedTensor sums = numbers(world), own = numbers(world);
    for (int i = 0; i < 3; ++i) pair->all_reduce(own.tensor);
    const auto pending = world.all_reduce_async(sums.tensor);
    pair->all_reduce(own.tensor);
    pending->wait();
    cuda::synchronize();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("NCCL failed on rank 1 of"),
                             HasSubstr("a fault injected by a test")));
}

TEST(NcclErrors, ThrowingRankEndsOthers) {
  EXPECT_EQ(error_of([](Communicator& world) {
              const OwnedTensor sums = numbers(world);
              world.all_reduce(sums.tensor);
              if (world.rank() == 3) fail("the real error");
              world.all_reduce(sums.tensor);
              cuda::synchronize();
            }),
            "the real error");
}

TEST(NcclErrors, RefusesTwoRanksOnOneGpu) {
  std::string message;
  set_nccl_environment(/*deterministic=*/true);
  try {
    run_thread_ranks(2, [](Communicator& host) {
      cuda::use_device(0);
      const auto world = make_nccl_communicator(host.split(0, host.rank()));
    });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device"));
}

}  // namespace
}  // namespace tessera
