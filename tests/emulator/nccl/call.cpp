#include "tests/emulator/nccl/call.h"

namespace emulator {
namespace {

const char* name_of(NcclKind kind) {
  switch (kind) {
    case NcclKind::all_reduce:
      return "ncclAllReduce";
    case NcclKind::all_gather:
      return "ncclAllGather";
    case NcclKind::reduce_scatter:
      return "ncclReduceScatter";
    case NcclKind::broadcast:
      return "ncclBroadcast";
    case NcclKind::send:
      return "ncclSend";
    case NcclKind::recv:
      return "ncclRecv";
  }
  return "?";
}

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "ncclInt8";
    case ncclUint8:
      return "ncclUint8";
    case ncclInt32:
      return "ncclInt32";
    case ncclInt64:
      return "ncclInt64";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
  }
  return "?";
}

const char* name_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return "ncclSum";
    case ncclProd:
      return "ncclProd";
    case ncclMax:
      return "ncclMax";
    case ncclMin:
      return "ncclMin";
    case ncclAvg:
      return "ncclAvg";
  }
  return "?";
}

bool reduces(NcclKind kind) {
  return kind == NcclKind::all_reduce || kind == NcclKind::reduce_scatter;
}

}  // namespace

std::string describe(const NcclCall& call) {
  std::string text = std::string(name_of(call.kind)) + " of " + std::to_string(call.count) + " " +
                     name_of(call.type);
  if (reduces(call.kind)) text += std::string(" by ") + name_of(call.op);
  if (call.kind == NcclKind::broadcast) text += " from rank " + std::to_string(call.root);
  if (call.kind == NcclKind::send) text += " to rank " + std::to_string(call.root);
  if (call.kind == NcclKind::recv) text += " from rank " + std::to_string(call.root);
  return call.captured ? text + ", in a graph" : text;
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

bool belong_together(const NcclCall& a, const NcclCall& b) {
  if (a.count != b.count || a.type != b.type || a.captured != b.captured) return false;
  if (a.is_message()) return a.kind != b.kind;  // sender and receiver were already matched
  return a.kind == b.kind && (!reduces(a.kind) || a.op == b.op) && a.root == b.root;
}

NcclChannel channel_of(int rank, const NcclCall& call) {
  if (!call.is_message()) return {};
  return call.kind == NcclKind::send ? NcclChannel{rank, call.root} : NcclChannel{call.root, rank};
}

NcclLink link_of(int rank, const NcclCall& call) {
  return {call.is_message() ? NcclKind::send : call.kind, channel_of(rank, call)};
}

NcclBytes buffer_bytes(const NcclCall& call, int rank, int ranks) {
  const size_t one = call.count * bytes_of(call.type), all = one * static_cast<size_t>(ranks);
  switch (call.kind) {
    case NcclKind::all_gather:
      return {one, all};
    case NcclKind::reduce_scatter:
      return {all, one};
    case NcclKind::broadcast:
      return {rank == call.root ? one : 0, one};
    case NcclKind::send:
      return {one, 0};
    case NcclKind::recv:
      return {0, one};
    default:
      return {one, one};
  }
}

}  // namespace emulator
