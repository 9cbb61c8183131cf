#include "tests/emulator/nccl/service_thread.h"

#include <mutex>
#include <thread>
#include <vector>

#include "tests/emulator/nccl/local_clique.h"

namespace emulator {
namespace {

std::vector<RequestedWork>& requested() {
  static auto* instance = new std::vector<RequestedWork>;
  return *instance;
}

void run_requested_work() {
  std::erase_if(requested(), [](const RequestedWork& work) {
    return work.comm->has_ended() || run_until(*work.stream, work.ticket);
  });
}

}  // namespace

void request_work(const RequestedWork& work) { requested().push_back(work); }

void start_service_thread() {
  static bool served = false;
  if (served) return;
  served = true;
  std::thread([] {
    std::unique_lock lock(stream_mutex());
    while (true) {
      run_requested_work();
      NcclLocalClique::run_requested_rounds();
      wait_for_change(lock);
    }
  }).detach();
}

}  // namespace emulator
