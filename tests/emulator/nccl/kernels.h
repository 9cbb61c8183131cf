#pragma once

#include <cstdint>
#include <memory>

#include "tests/emulator/streams.h"

struct ncclComm;

namespace emulator {

/// A launched kernel of NCCL. It occupies its GPU from its start until all ranks have run theirs.
struct NcclKernel {
  const ncclComm* comm;
  Stream* stream;
  uint64_t ticket;  ///< of its work on the stream
  bool done = false;
};

/// Records the launch of a kernel. All functions require stream_mutex().
std::shared_ptr<NcclKernel> launch_nccl_kernel(const ncclComm& comm, Stream& stream,
                                               uint64_t ticket);

/// Starts the kernel, which its stream has reached, if it may start now; returns whether it has
/// started. A GPU runs one kernel of NCCL at a time. If several could start, half of the GPUs
/// prefer the oldest communicator and half the newest, so that ranks whose kernels are not ordered
/// block each other. With NCCL_LAUNCH_ORDER_IMPLICIT=1, kernels start in the order of their
/// launches.
bool may_run(const std::shared_ptr<NcclKernel>& kernel);

/// Frees the GPU for other kernels.
void end_nccl_kernel(NcclKernel& kernel);

/// Whether the GPU has kernels of communicators that have not ended.
bool has_nccl_kernels(int device);

/// The emulated version of NCCL: NCCL_VERSION_CODE, or TESSERA_EMULATOR_NCCL_VERSION.
int nccl_version_code();

}  // namespace emulator
