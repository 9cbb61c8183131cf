#include "tests/emulator/nccl/others.h"

#include <mutex>
#include <thread>
#include <vector>

#include "tests/emulator/nccl/local_clique.h"

namespace emulator {
namespace {

std::vector<WantedWork>& wanted() {
  static auto* instance = new std::vector<WantedWork>;
  return *instance;
}

void come_as_wanted() {
  std::erase_if(wanted(), [](const WantedWork& work) {
    return work.comm->has_ended() || run_until(*work.stream, work.ticket);
  });
}

}  // namespace

void others_want(const WantedWork& work) { wanted().push_back(work); }

void serve_others() {
  static bool served = false;
  if (served) return;
  served = true;
  std::thread([] {
    std::unique_lock lock(stream_mutex());
    while (true) {
      come_as_wanted();
      NcclLocalClique::do_what_is_wanted();
      wait_for_change(lock);
    }
  }).detach();
}

}  // namespace emulator
