#include "launch/checkpoint/save/save.h"

#include <utility>

#include "launch/checkpoint/save/save_steps.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

// Wherever one rank may fail, all_or_none makes all ranks fail together, so that no rank enters a
// collective that another never reaches.
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
    if (request.check) request.check();
    std::vector<std::string> written_of_rank = gather_strings(world, written, 0);
    all_or_none(world, [&] {
      if (is_root) steps.publish(std::move(written_of_rank));
    });
  } catch (const SharedError& error) {  // other errors affect one rank alone and end all ranks
    steps.discard();
    throw steps.failure(error, world);
  }
  if (is_root) steps.prune();
  world.barrier();  // rank 0 has finished
  return steps.saved();
}

}  // namespace tessera
