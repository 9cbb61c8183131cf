#pragma once

#include <cstddef>
#include <memory>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Maximum bytes of one staged piece of a tensor, over all ranks.
inline constexpr size_t kStagedPieceBytes = size_t{64} << 20;

/// A communicator that passes host tensors to `host` and stages GPU tensors through pinned host
/// memory: it copies them there piece by piece, exchanges the pieces with `host`, and copies them
/// back. Ranks may share a GPU. Sums are those of `host`.
///
/// GPU tensors must be on the calling thread's device, which must have been chosen. The host waits
/// for work enqueued before a collective; work enqueued after it sees the result. A pending
/// collective runs on the host while the GPU works, and wait() copies its result back. At most
/// eight pieces of collectives are staged at a time; a further one first finishes the oldest. An
/// exchange is staged as a whole, and the dtypes and sizes of its messages are compared by piece.
///
/// Its name is that of `host` plus "staged": "mpi, staged". All ranks pass the same `piece_bytes`.
[[nodiscard]] std::unique_ptr<Communicator> make_staged_communicator(
    std::unique_ptr<Communicator> host, size_t piece_bytes = kStagedPieceBytes);

}  // namespace tessera
