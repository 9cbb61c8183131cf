#include "launch/devices/opened_ranks.h"

#include "core/error.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

OpenedRanks::OpenedRanks(const DeviceRequest& request, const GridShape& shape,
                         Communicator& host_world)
    : world(host_world),
      threads(apply_host_threads(world)),
      devices(open_devices(request, world)),
      groups(make_parallel_groups(*devices.world, shape)) {}

GridShape shape_of_option(int64_t tensor, Communicator& world) {
  all_or_none(world, [&] {
    require(world.size() % tensor == 0,
            "--tensor is {}, but {} ranks were started: choose a divisor of their number", tensor,
            world.size());
  });
  return {.tensor = tensor};
}

}  // namespace tessera
