#pragma once

#include <nccl.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

enum class NcclKind : uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, send, recv };

/// One rank's call of NCCL.
struct NcclCall {
  NcclKind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  ///< as passed to the call
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;           ///< or the peer of a message
  bool captured = false;  ///< launched by a graph

  bool is_message() const { return kind == NcclKind::send || kind == NcclKind::recv; }
};

/// "ncclAllReduce of 12 ncclFloat32 by ncclSum"
std::string describe(const NcclCall& call);

size_t bytes_of(ncclDataType_t type);

/// Returns whether two ranks' calls are the same collective, or a send and its receive.
bool belong_together(const NcclCall& a, const NcclCall& b);

/// The ranks that take part in a call: all, or a message's two.
struct NcclChannel {
  int sender = -1, receiver = -1;
  auto operator<=>(const NcclChannel&) const = default;
};
NcclChannel channel_of(int rank, const NcclCall& call);

/// Calls that share connections.
struct NcclLink {
  NcclKind kind;
  NcclChannel channel;
  auto operator<=>(const NcclLink&) const = default;
};
NcclLink link_of(int rank, const NcclCall& call);

/// Buffer sizes of rank `rank` of `ranks` in bytes; 0 for a buffer that is not used.
struct NcclBytes {
  size_t send = 0, recv = 0;
};
NcclBytes buffer_bytes(const NcclCall& call, int rank, int ranks);

/// Performs the calls of all ranks, in order; for a message, those of the sender and the receiver.
/// Device memory must be accessible.
///
/// Like NCCL's ring, sums go in one direction from rank to rank and start at another rank for each
/// share of the elements. Partial sums have the buffers' type. Maxima and minima drop NaN. With
/// NVLS, the order of the ranks in sums is random.
void move_data(const std::vector<NcclCall>& calls);

/// Whether NCCL's environment permits NVLS, reductions in NVSwitch.
bool permits_nvls();

}  // namespace emulator
