#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/trace/timeline.h"
#include "parallel/communicators/collective_call.h"
#include "parallel/communicators/host/host_event_count.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// A rank's state in shared memory, read by the other ranks of its group.
struct alignas(64) HostRankPart {
  /// Maximum number of calls in flight; a further call waits for the oldest.
  static constexpr uint64_t kRing = 32;
  /// Largest all-reduce, in bytes, whose input is copied here.
  static constexpr size_t kSmall = 2048;

  std::atomic<uint64_t> started{0};   ///< number of calls; the last kRing are in `calls`
  std::atomic<uint64_t> finished{0};  ///< number of calls whose part this rank has done
  std::atomic<bool> failed{false};    ///< this rank does no further parts
  std::array<CollectiveCall, kRing> calls;
  std::array<std::array<std::byte, kSmall>, kRing> small;  ///< the inputs of small calls
};

/// A rank of a group, as seen by all ranks of the group.
struct HostMember {
  pid_t process;
  HostEventCount* event;
  HostRankPart* part;
};

/// Collectives of ranks on one host that may copy from and to each other's memory
/// (parallel/communicators/host/peer_memory.h). Each rank reads its slice of the others' tensors,
/// reduces it in rank order, and writes the result to all. For n bytes it copies 2(p − 1)/p · n,
/// each byte once, which is the minimum for an all-reduce. Ranks synchronize twice: when all have
/// called, and when all have finished their slices. Small all-reduces synchronize once.
///
/// A pending call is executed by whichever comes first, a ProgressThread or a waiting thread. Calls
/// are executed in the order in which they were started.
class HostGroup final : public Progressable {
 public:
  /// `members` are in rank order; their memory must outlive this object on all ranks.
  HostGroup(int rank, std::vector<HostMember> members);

  /// A function that a waiting thread calls at least every millisecond, to advance other work that
  /// ranks need from this one and that notifies no event count. Set it before the first call.
  void set_while_waiting(std::function<void()> body) { while_waiting_ = std::move(body); }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }

  /// Starts a call and returns its number. Only one thread of a rank may start calls at a time. The
  /// call's memory must be reachable by the other ranks, and must not be touched until the call is
  /// done.
  uint64_t start(const CollectiveCall& call);

  /// Whether the call's result is in place on this rank and no other rank needs its memory. Throws
  /// the error of this call or an earlier one.
  bool done(uint64_t number);

  /// Waits until done(), doing this rank's part of all calls that are ready.
  void wait(uint64_t number);

  /// Stops taking part in calls, because the memory of a pending one is about to be freed. Later
  /// calls of this rank throw, and so do the other ranks' calls that need it.
  void abort();

  Progress make_progress() override;
  bool notifies() const override { return true; }

 private:
  HostRankPart& mine() const { return *members_[static_cast<size_t>(rank_)].part; }
  HostEventCount& event() const { return *members_[static_cast<size_t>(rank_)].event; }
  const CollectiveCall& call_of(size_t member, uint64_t number) const {
    return members_[member].part->calls[number % HostRankPart::kRing];
  }

  bool all_have(std::atomic<uint64_t> HostRankPart::*count, uint64_t more_than) const;
  bool is_done(uint64_t number) const;
  /// Does this rank's part of the calls that all ranks have started. Requires the lock.
  bool do_what_is_ready();
  void do_part(uint64_t number);
  void do_small(uint64_t number);
  void wait_until(const std::function<bool()>& holds);
  void wait_for_event(const std::function<bool()>& holds);
  void ring_others() const;
  void check_others() const;
  void check_alive() const;
  void fail_with(std::exception_ptr error);
  void throw_error();

  int rank_;
  std::vector<HostMember> members_;
  std::function<void()> while_waiting_;
  std::mutex mutex_;  // held while doing this rank's parts
  std::atomic<int> waiting_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written before failed_ is set
  // The timeline of each call in flight, or null.
  std::array<Timeline*, HostRankPart::kRing> timelines_{};
};

}  // namespace tessera
