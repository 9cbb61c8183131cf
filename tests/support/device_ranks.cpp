#include "tests/support/device_ranks.h"

#include "core/cuda/runtime.h"
#include "parallel/cuda/staged_communicator.h"
#include "parallel/thread_communicator.h"
#include "tests/support/tensors.h"

namespace tessera::test {

void run_device_ranks(int ranks, const std::function<void(Communicator& world)>& body) {
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

}  // namespace tessera::test
