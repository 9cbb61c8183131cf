// What communicators and libraries take of a GPU's memory, and when it is read.

#include <gtest/gtest.h>

#include "core/cuda/runtime.h"
#include "launch/devices/open_devices.h"
#include "launch/devices/warm_up.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using emulator::free_device_bytes;
using emulator::kNcclBytes;

TEST(NcclMemory, GroupsOfSameRanksShareCommunicator) {
  test::run_nccl_ranks(4, [](Communicator& world) {
    const size_t before = free_device_bytes(world.rank());
    const auto communicators = [&] {
      return (before - free_device_bytes(world.rank())) / kNcclBytes;
    };
    {
      const auto same = world.split(0, world.rank());
      const auto alone = world.split(world.rank(), 0);
      const auto still_alone = alone->split(0, 0);
      EXPECT_EQ(communicators(), 0u);
      const auto reversed = world.split(0, -world.rank());
      EXPECT_EQ(communicators(), 1u);
      const auto half = world.split(world.rank() / 2, world.rank());
      EXPECT_EQ(communicators(), 2u);
      world.barrier();  // no rank frees before all have counted
    }
    EXPECT_EQ(communicators(), 0u);
    // The data ranks of the one grid and the tensor ranks of the other are the world.
    const ParallelGroups data = make_parallel_groups(world),
                         tensor = make_parallel_groups(world, {.tensor = 4});
    EXPECT_EQ(communicators(), 0u);
    world.barrier();
  });
}

TEST(NcclMemory, FreeMemoryIsReadAfterWarmUp) {
  const cuda::Environment on("TESSERA_EMULATOR_CUDNN", "1");
  RunConfig config;
  config.model = test::gpt2_model();
  config.model.attention_dropout = 0.0;
  config.run.precision = DType::bf16;
  run_thread_ranks(4, [&](Communicator& host) {
    const size_t before = free_device_bytes(host.rank());
    const OpenedDevices devices = open_devices({DeviceChoice::cuda, Backend::nccl}, host);
    const ParallelGroups groups = make_parallel_groups(*devices.world, {.tensor = 2});
    const size_t free_bytes = free_bytes_after_warm_up(config, devices, groups);
    // The communicators of the world, of the tensor and of the data ranks, each of which reduces,
    // scatters and gathers.
    EXPECT_EQ(before - free_bytes, 3 * (kNcclBytes + 3 * emulator::kNcclKindBytes) +
                                       emulator::kCublasLtBytes + emulator::kCudnnBytes);
    EXPECT_EQ(free_bytes, free_device_bytes(host.rank())) << "the warm-up keeps memory";
    host.barrier();
  });
}

}  // namespace
}  // namespace tessera
