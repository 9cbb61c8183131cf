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

/// NCCL for the tensors of GPUs, `host` for those of the host. Every rank has a GPU of its own, the
/// calling thread's, which cuda::use_device has chosen. Collective over `host`; if any rank fails
/// to connect, all throw SharedError. Defined where kHasNccl.
///
/// The host never waits for the transfer of a GPU's tensor. Collectives run on a stream of the
/// communicator's own: after the work that this thread's stream has when they are called, and
/// before what it gets after them, or, if pending, after their wait(). All calls are to be made on
/// the thread that made the communicator.
///
/// Sums run in the tensor's dtype: NCCL rounds each partial sum of bf16 to bf16, and in which order
/// partial sums are added up depends on the connections and their number, so that results may
/// differ between layouts by roundings; on one layout they are the same bits every time. Maxima
/// keep NaN: those of fp32 and fp64 all-reduces are taken on integers of the same order; those of
/// bf16 and of reduce_scatter go through pinned host memory, for which the host waits. The sizes of
/// messages are not compared: a recv of another size than its send is an error of the caller that
/// nothing tells.
///
/// While the host waits for its GPU (cuda::synchronize, DeviceMark::wait), it looks after NCCL's
/// errors: if a connection fails, that throws, with NCCL's own text, and a PeerError where it tells
/// of no more than a peer that is gone. A peer that is only late is waited for. A rank that ends
/// without a word is the launcher's to notice, which ends the others. Where an exception passes,
/// and after an error, all of the thread's NCCL communicators are aborted together, since none's
/// memory can be freed while the GPU waits for another's peers; otherwise a communicator's
/// destruction finishes what is pending, and is collective.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(
    std::unique_ptr<Communicator> host);

/// Of the library that runs: "2.28.9".
std::string nccl_version();

}  // namespace tessera
