// What communicators take of a GPU's memory.

#include <gtest/gtest.h>

#include "parallel/process_grid.h"
#include "tests/emulator/device_memory.h"
#include "tests/support/device_ranks.h"

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
    const ParallelGroups data = make_parallel_groups(world, 1),
                         tensor = make_parallel_groups(world, 4);
    EXPECT_EQ(communicators(), 0u);
    world.barrier();
  });
}

}  // namespace
}  // namespace tessera
