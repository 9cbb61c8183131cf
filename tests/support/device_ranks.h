#pragma once

#include <functional>

#include "parallel/communicator.h"

namespace tessera::test {

/// run_thread_ranks() for tensors on test_device(): on a GPU, which all ranks share, each rank has
/// a communicator that stages through host memory.
void run_device_ranks(int ranks, const std::function<void(Communicator& world)>& body);

}  // namespace tessera::test
