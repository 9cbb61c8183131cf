#pragma once

#include <functional>

#include "parallel/communicators/communicator.h"
#include "parallel/process_grid.h"

namespace tessera::test {

/// The groups of a run with one rank.
const ParallelGroups& one_rank();

/// run_thread_ranks() for tensors on test_device(). On a GPU, which all ranks share, communicators
/// stage through host memory. With TESSERA_TEST_BACKEND=nccl, each rank has its own GPU, as in
/// run_nccl_ranks().
void run_device_ranks(int ranks, const std::function<void(Communicator& world)>& body);

/// Returns whether run_device_ranks() uses run_nccl_ranks().
bool on_nccl();

/// Runs ranks as threads, each with NCCL and a GPU of its own as its test_device(). Throws if there
/// are too few GPUs.
void run_nccl_ranks(int ranks, const std::function<void(Communicator& world)>& body);

/// Returns whether there is NCCL and a GPU for each rank.
bool can_run_nccl_ranks(int ranks);

}  // namespace tessera::test
