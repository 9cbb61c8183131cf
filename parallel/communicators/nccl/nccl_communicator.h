#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

#ifdef TESSERA_HAS_NCCL
inline constexpr bool kHasNccl = true;
#else
inline constexpr bool kHasNccl = false;
#endif

/// A communicator that uses NCCL for GPU tensors and `host` for host tensors. Every rank has its
/// own GPU, the calling thread's, which cuda::use_device has chosen. Collective over `host`; if any
/// rank fails to connect, all throw SharedError. Call set_nccl_environment() before. Defined if
/// kHasNccl.
///
/// split() shares the ncclComm_t and its stream with a group of the same ranks in the same order:
/// each takes hundreds of MiB of GPU memory. A group of one rank has none.
///
/// Collectives of all communicators of a rank start on its GPU in the order of their calls, which
/// must be the same on all ranks: ranks that start two of them in different orders deadlock.
///
/// The host never waits for the transfer of a GPU tensor. Collectives run on a stream of the
/// communicator: after the work enqueued on this thread's stream before the call, and before the
/// work enqueued after the call or, for a pending collective, after its wait(). At the first
/// exchange between two ranks, the host of each waits for the other. All calls must come from the
/// thread that created the communicator.
///
/// Sums run in the tensor's dtype. NCCL rounds each partial sum of bf16 to bf16, and the order of
/// partial sums depends on the connections and their number. Results may therefore differ in
/// rounding between layouts; on one layout they have the same bits every time, unless NVLS is
/// permitted (set_nccl_environment). Maxima propagate
/// NaN: maxima of fp32 and fp64 all-reduces are computed on integers of the same order; those of
/// bf16 and of reduce_scatter go through pinned host memory, for which the host waits. Message
/// sizes are not compared: messages that do not match are a caller's error that is not detected.
///
/// While the host waits for its GPU (cuda::synchronize, DeviceMark::wait), it polls NCCL for
/// errors. A failed connection throws with NCCL's own text; it is a PeerError if it reports only a
/// lost peer. A slow peer is waited for. If a rank dies silently, the launcher must notice and end
/// the others. After an error, and while an exception propagates, all NCCL communicators of the
/// thread are aborted together, because no memory of one can be freed while the GPU waits for the
/// peers of another. Otherwise the destructor finishes pending work and is collective.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(
    std::unique_ptr<Communicator> host);

/// The version of the loaded library, such as "2.28.9".
std::string nccl_version();

}  // namespace tessera
