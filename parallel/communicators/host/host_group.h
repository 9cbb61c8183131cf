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
#include "parallel/communicators/host/host_bell.h"
#include "parallel/communicators/host/host_call.h"
#include "parallel/communicators/host/progress_thread.h"

namespace tessera {

/// What a rank tells the others of its group, in memory that they share.
struct alignas(64) HostRankPart {
  /// Calls that may be under way at once; one more waits for the first.
  static constexpr uint64_t kRing = 32;

  std::atomic<uint64_t> started{0};   ///< calls, of which the last kRing are in `calls`
  std::atomic<uint64_t> finished{0};  ///< those of them of which this rank has done its part
  std::atomic<bool> failed{false};    ///< it will not do its part of any more
  std::array<HostCall, kRing> calls;
  std::array<std::array<std::byte, HostCall::kSmall>, kRing> small;  ///< the inputs of small calls
};

/// A rank of a group, as all ranks of the group see it.
struct HostMember {
  pid_t process;
  HostBell* bell;
  HostRankPart* part;
};

/// Collectives of ranks that run on one host and may copy from and to each other's memory
/// (parallel/communicators/host/peer_memory.h). Each rank reads its slice of the others' tensors,
/// reduces it in the order of ranks, and writes the result to all: of n bytes it copies 2(p − 1)/p
/// · n, each once, which is the least that an all-reduce can do. Ranks meet twice, when all have
/// called and when all have done their slice; in between none waits for another. Small all-reduces
/// meet once.
///
/// The work of a call that is pending is done by whoever comes first, a ProgressThread or a
/// thread that waits. Calls are worked on in the order in which they were started.
class HostGroup final : public Progressable {
 public:
  /// `members` in the order of ranks; their memory must outlive it on all ranks.
  HostGroup(int rank, std::vector<HostMember> members);

  /// What a thread that waits calls every millisecond at least: to move on what else others may
  /// need of this rank, and has no bell. Before the first call.
  void set_while_waiting(std::function<void()> body) { while_waiting_ = std::move(body); }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }

  /// Starts a call and returns its number. One thread of a rank at a time. The memory of the call
  /// may not be touched until it is done; others must be able to reach it.
  uint64_t start(const HostCall& call);

  /// Whether its result is in place on this rank, and no other needs its memory. Throws what went
  /// wrong with it or one before.
  bool done(uint64_t number);

  /// Returns when done(), for which it does this rank's part of all calls that are ready.
  void wait(uint64_t number);

  /// Takes no part in any call from here on, because memory of one that is pending goes away: this
  /// rank's later calls throw, and so do the other ranks' that need it.
  void give_up();

  Progress make_progress() override;
  bool rings() const override { return true; }

 private:
  HostRankPart& mine() const { return *members_[static_cast<size_t>(rank_)].part; }
  HostBell& bell() const { return *members_[static_cast<size_t>(rank_)].bell; }
  const HostCall& call_of(size_t member, uint64_t number) const {
    return members_[member].part->calls[number % HostRankPart::kRing];
  }

  bool all_have(std::atomic<uint64_t> HostRankPart::*count, uint64_t more_than) const;
  bool is_done(uint64_t number) const;
  /// Of the calls that all have started, those that this rank has not done; with the lock.
  bool do_what_is_ready();
  void do_part(uint64_t number);
  void wait_until(const std::function<bool()>& holds);
  void wait_at_bell(const std::function<bool()>& holds);
  void ring_others() const;
  void check_others() const;
  void check_alive() const;
  void fail_with(std::exception_ptr error);
  void throw_error();

  int rank_;
  std::vector<HostMember> members_;
  std::function<void()> while_waiting_;
  std::mutex mutex_;  // of the work
  std::atomic<int> waiting_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // before failed_
  // Of each call under way, where its work is told of; null if nowhere.
  std::array<Timeline*, HostRankPart::kRing> timelines_{};
};

}  // namespace tessera
