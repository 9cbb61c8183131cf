#include "launch/checkpoint/save/save.h"

#include "launch/checkpoint/save/save_steps.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

// Where a rank may fail, all_or_none makes all of them fail together, so that none goes on to a
// collective that another will not reach.
SavedCheckpoint save_checkpoint(const SaveRequest& request, Communicator& world) {
  const bool is_root = world.rank() == 0;
  SaveSteps steps(request);
  try {
    steps.agree(world);
    all_or_none(world, [&] {
      if (is_root) steps.create();
    });
    std::string written;
    all_or_none(world, [&] { written = steps.write(); });
    const std::vector<std::string> written_of_rank = all_gather_strings(world, written);
    all_or_none(world, [&] {
      if (is_root) steps.publish(written_of_rank);
    });
  } catch (const SharedError& error) {  // others are one rank's alone, and end all
    steps.discard();
    throw steps.failure(error, world);
  }
  if (is_root) steps.prune();
  world.barrier();  // when this returns, rank 0 has done all
  return steps.saved();
}

}  // namespace tessera
