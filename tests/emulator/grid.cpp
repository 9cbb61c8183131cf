// Runs a grid on the calling thread, one block after the other.

#include "tests/emulator/grid.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/emulator/block.h"
#include "tests/emulator/device_memory.h"

namespace emulator {
namespace {

Launch running;
std::map<std::string, Shape> grids;
thread_local bool inside = false;

/// The choice of OnlyLastBlocks.
struct Selection {
  uint64_t count;
  std::vector<std::string> whole;
};
std::optional<Selection> selection;

/// The first block of a grid that runs.
uint64_t first_block(const Launch& launch) {
  const uint64_t blocks = launch.grid.count();
  if (!selection) return 0;
  if (launch.name != nullptr && std::ranges::count(selection->whole, launch.name) > 0) return 0;
  return blocks - std::min(blocks, selection->count);
}

bool within(const Shape& shape, unsigned y, unsigned z) {
  return shape.x > 0 && shape.y > 0 && shape.z > 0 && shape.y <= y && shape.z <= z;
}

}  // namespace

const Launch& running_launch() { return running; }
const std::map<std::string, Shape>& last_grids() { return grids; }
bool in_kernel() { return inside; }

OnlyLastBlocks::OnlyLastBlocks(uint64_t count, std::vector<std::string> whole) {
  selection = {count, std::move(whole)};
}
OnlyLastBlocks::~OnlyLastBlocks() { selection.reset(); }

bool can_launch(const Launch& launch) {
  return within(launch.grid, 65535, 65535) && launch.grid.x < 1u << 31 &&
         within(launch.block, 1024, 64) && launch.block.count() <= 1024 &&
         launch.shared_bytes <= kBlockSharedBytes;
}

void run_grid(const Launch& launch, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const DeviceAccess access;
  catch_faults();
  inside = true;
  running = launch;
  if (launch.name != nullptr) grids[launch.name] = launch.grid;
  gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
  blockDim = {launch.block.x, launch.block.y, launch.block.z};
  poison_static_shared();
  inexact_math = Inexact::from_environment();
  Order order = Order::from_environment();
  const auto first = static_cast<unsigned>(first_block(launch));
  std::vector<unsigned> turns;
  order.put(static_cast<unsigned>(launch.grid.count()) - first, turns);
  for (const unsigned turn : turns) {
    const unsigned i = first + turn;
    blockIdx = {i % launch.grid.x, i / launch.grid.x % launch.grid.y,
                i / launch.grid.x / launch.grid.y};
    the_block().run(launch, order, thread);
  }
  inside = false;
}

void* dynamic_shared() { return the_block().shared(); }
void block_barrier(const Site& site) { the_block().barrier(site); }
void warp_exchange(Parcel& parcel, const Site& site) { the_block().exchange(parcel, site); }
int lane() { return the_block().lane(); }

}  // namespace emulator
