#pragma once

#include <nccl.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

enum class NcclKind : uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, send, recv };

/// What one rank asks of NCCL.
struct NcclCall {
  NcclKind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  ///< as the call takes it
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;           ///< or the peer of a message
  bool captured = false;  ///< it comes from a graph

  bool is_message() const { return kind == NcclKind::send || kind == NcclKind::recv; }
};

/// "ncclAllReduce of 12 ncclFloat32 by ncclSum"
std::string describe(const NcclCall& call);

size_t bytes_of(ncclDataType_t type);

/// Whether two ranks' calls are of the same collective, or a send and its receive.
bool belong_together(const NcclCall& a, const NcclCall& b);

/// Between which ranks a call is: all, or a message's two.
struct NcclChannel {
  int sender = -1, receiver = -1;
  auto operator<=>(const NcclChannel&) const = default;
};
NcclChannel channel_of(int rank, const NcclCall& call);

/// What needs connections of its own.
struct NcclLink {
  NcclKind kind;
  NcclChannel channel;
  auto operator<=>(const NcclLink&) const = default;
};
NcclLink link_of(int rank, const NcclCall& call);

/// Bytes of the buffers that rank `rank` of `ranks` sends and receives; 0 of one that is not used.
struct NcclBytes {
  size_t send = 0, recv = 0;
};
NcclBytes buffer_bytes(const NcclCall& call, int rank, int ranks);

/// Does what the calls of all ranks, in their order, ask together; of a message its sender's and
/// its receiver's. Device memory can be touched meanwhile.
///
/// As NCCL's ring does, numbers are added up in one direction from rank to rank, from another one
/// for each share of the elements; each partial sum has the buffers' type; and maxima and minima
/// drop NaN.
void move_data(const std::vector<NcclCall>& calls);

}  // namespace emulator
