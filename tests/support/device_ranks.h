#pragma once

#include <functional>

#include "parallel/communicators/communicator.h"

namespace tessera::test {

/// run_thread_ranks() for tensors on test_device(): on a GPU, which all ranks share, each rank has
/// a communicator that stages through host memory; with TESSERA_TEST_BACKEND=nccl, it has a GPU of
/// its own, and they are run_nccl_ranks().
void run_device_ranks(int ranks, const std::function<void(Communicator& world)>& body);

/// Whether run_device_ranks() are run_nccl_ranks().
bool on_nccl();

/// Each rank, a thread, has a GPU of its own, which is its test_device(), and NCCL. Throws if there
/// are too few GPUs.
void run_nccl_ranks(int ranks, const std::function<void(Communicator& world)>& body);

/// Whether there is NCCL, and a GPU for each of as many ranks.
bool can_run_nccl_ranks(int ranks);

}  // namespace tessera::test
