#pragma once

#include <cstddef>
#include <memory>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Bytes that one staged piece of a tensor has at most, on all ranks together.
inline constexpr size_t kStagedPieceBytes = size_t{64} << 20;

/// A communicator that moves host tensors as `host` does, and the tensors of GPUs through pinned
/// host memory: each is copied there, piece by piece, exchanged by `host`, and copied back. Any
/// number of ranks may share a GPU. Sums are those of `host`.
///
/// GPU tensors are those of the calling thread's device, which must have been chosen. The host
/// waits for the work that was enqueued before a collective; the result is in place for what is
/// enqueued after it. A pending collective runs on the host while the GPU works, until wait()
/// copies its result back. Several together stage eight pieces at most; a further one finishes the
/// oldest first.
///
/// Its kind is that of `host`, and staged: "mpi, staged". All ranks pass the same `piece_bytes`.
[[nodiscard]] std::unique_ptr<Communicator> make_staged_communicator(
    std::unique_ptr<Communicator> host, size_t piece_bytes = kStagedPieceBytes);

}  // namespace tessera
