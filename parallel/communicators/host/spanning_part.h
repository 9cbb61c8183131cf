#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/range.h"
#include "parallel/communicators/host/host_layout.h"
#include "parallel/communicators/host/host_link.h"
#include "parallel/communicators/host/spare_buffers.h"
#include "parallel/communicators/peer_calls.h"

namespace tessera {

/// One rank's part of a collective of ranks on several hosts, which all ranks of its host have
/// called. Of n bytes, a host with p of P ranks sends and receives together about n to reduce and n
/// to gather, whatever p is: in an all-reduce, (1 − p/P) n + (H − 1) p/P n of H hosts, which for
/// equal hosts is 2 (H − 1)/H n, the minimum. bf16 is summed in fp32 and rounds once, so sums of
/// several ranks travel as fp32.
///
/// Small all-reduces and barriers take one step instead of two, between the first ranks of the
/// hosts.
class SpanningPart {
 public:
  /// References that the part works with; all must outlive the part.
  struct Group {
    const HostLayout& layout;
    int rank;  ///< in the group
    HostLink& link;
    SpareBuffers& spare;
    std::span<const pid_t> processes;  ///< of the host's ranks, ascending
  };

  /// Starts call `number` of the group. `calls` has those of the host's ranks, in their order. If
  /// `small` is not empty, the call is a small all-reduce, and `small` has copies of its inputs.
  SpanningPart(const Group& group, uint64_t number, std::vector<CollectiveCall> calls,
               std::vector<const std::byte*> small);
  ~SpanningPart();
  SpanningPart(const SpanningPart&) = delete;
  SpanningPart& operator=(const SpanningPart&) = delete;

  /// Does what can be done without waiting for messages. When it returns Progress::finished, this
  /// rank needs no other host and has written to all outputs of its host what it has to.
  Progressable::Progress advance();

 private:
  using Transfers = HostLink::Transfers;
  enum class Step : uint8_t { reducing, summing_small, scattering, gathering, done };

  const HostLayout& layout() const { return group_.layout; }
  int rank() const { return group_.rank; }
  int my_host() const { return layout().host_of(rank()); }
  const CollectiveCall& mine() const { return peers_.mine(); }
  int root_host() const { return layout().host_of(mine().root); }
  /// The elements that `owner` owns of the larger tensor.
  Range slice_of(int owner) const;
  int tag(int step) const;
  DType dtype_of_sum(Range ranks) const;
  std::byte* scratch(int64_t elements, DType dtype);

  void for_each_other_host(const std::function<void(int host)>& body) const;
  /// Calls body(owner, slice) for the slices of other hosts' ranks that this rank carries.
  void for_each_carried(const std::function<void(int owner, Range slice)>& body) const;

  void start_reduce();
  void end_reduce();
  void start_small();
  void end_small();
  void start_scatter();
  void end_scatter();
  void start_gather();
  void end_gather();

  Group group_;
  uint64_t number_;
  std::vector<CollectiveCall> calls_;
  std::vector<const std::byte*> small_;
  PeerCalls peers_;
  Step step_ = Step::done;
  std::unique_ptr<Transfers> transfers_;
  std::vector<ReduceSource> received_;  // sums of other hosts
  std::vector<Buffer> scratch_;
};

}  // namespace tessera
