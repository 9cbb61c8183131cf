#include "tests/support/runs/device_ranks.h"

#include <cstdlib>
#include <string_view>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "parallel/communicators/nccl/nccl_communicator.h"
#include "parallel/communicators/nccl/nccl_environment.h"
#include "parallel/communicators/staged/staged_communicator.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/tensors.h"

namespace tessera::test {

bool on_nccl() {
  const char* backend = std::getenv("TESSERA_TEST_BACKEND");
  return on_gpu() && backend != nullptr && backend == std::string_view("nccl");
}

void run_device_ranks(int ranks, const std::function<void(Communicator& world)>& body) {
  if (on_nccl()) return run_nccl_ranks(ranks, body);
  run_thread_ranks(ranks, [&](Communicator& host) {
    if constexpr (kHasCuda) {
      if (on_gpu()) {
        cuda::use_device(test_device().index);
        const auto world = make_staged_communicator(host.split(0, host.rank()));
        return body(*world);
      }
    }
    body(host);
  });
}

const ParallelGroups& one_rank() {
  static const std::unique_ptr<Communicator> world = make_self_communicator();
  static const ParallelGroups groups = make_parallel_groups(*world);
  return groups;
}

bool can_run_nccl_ranks([[maybe_unused]] int ranks) {
  if constexpr (kHasNccl) return cuda::device_count() >= ranks;
  return false;
}

void run_nccl_ranks(int ranks, const std::function<void(Communicator& world)>& body) {
  require(can_run_nccl_ranks(ranks), "{} ranks need as many GPUs, and a build with NCCL", ranks);
  if constexpr (kHasNccl) set_nccl_environment(/*deterministic=*/true);
  run_thread_ranks(ranks, [&](Communicator& host) {
    if constexpr (kHasNccl) {
      use_test_gpu(host.rank());
      const auto world = make_nccl_communicator(host.split(0, host.rank()));
      body(*world);
    }
  });
}

}  // namespace tessera::test
