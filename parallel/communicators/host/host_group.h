#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/trace/timeline.h"
#include "parallel/communicators/collective_call.h"
#include "parallel/communicators/host/host_event_count.h"
#include "parallel/communicators/host/host_exchange.h"
#include "parallel/communicators/host/host_layout.h"
#include "parallel/communicators/host/host_link.h"
#include "parallel/communicators/host/progress_thread.h"
#include "parallel/communicators/host/spanning_part.h"
#include "parallel/communicators/host/spare_buffers.h"

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
  HostSlot* outbox;  ///< one slot for each rank of the host; null if there is one
  int world_rank;    ///< for messages, which users compare with those of other groups
};

/// Collectives and exchanges of ranks that may copy from and to each other's memory
/// (parallel/communicators/host/peer_memory.h) if they are on one host, and otherwise send
/// messages.
///
/// On one host, each rank reads its slice of the others' tensors, reduces it, and writes the result
/// to all. For n bytes it copies 2(p − 1)/p · n, each byte once, which is the minimum for an
/// all-reduce. Ranks synchronize twice: when all have called, and when all have finished their
/// slices. Small all-reduces synchronize once. On several hosts, each host first reduces what it
/// sends to the others (parallel/communicators/host/spanning_part.h). The order of sums is that of
/// parallel/communicators/reduce.h in both cases, so they have the same bits on any hosts.
///
/// A pending call is executed by whichever comes first, a ProgressThread or a waiting thread.
/// Collectives are executed in the order in which they were started, and exchanges beside them
/// (parallel/communicators/host/host_exchange.h).
class HostGroup final : public Progressable {
 public:
  /// `rank` is this rank in the group. `members` are the ranks of its host, ascending; their memory
  /// must outlive this object on all of them. `link` connects the hosts, and is null if there is
  /// only one.
  HostGroup(HostLayout layout, int rank, std::vector<HostMember> members,
            std::unique_ptr<HostLink> link = nullptr);

  /// A function that a waiting thread calls at least every millisecond, to advance other work that
  /// ranks need from this one and that notifies no event count. Set it before the first call.
  void set_while_waiting(std::function<void()> body) { while_waiting_ = std::move(body); }

  int rank() const { return rank_; }
  int size() const { return layout_.ranks(); }

  /// Starts a call and returns its number. Only one thread of a rank may start calls at a time. The
  /// call's memory must be reachable by the other ranks, and must not be touched until the call is
  /// done.
  uint64_t start(const CollectiveCall& call);

  /// Whether the call's result is in place on this rank and no other rank needs its memory. Throws
  /// the error of this call or an earlier one.
  bool done(uint64_t number);

  /// Waits until done(), doing this rank's part of all calls that are ready.
  void wait(uint64_t number);

  /// Starts an exchange. Tensors to send to ranks of this host must be reachable by them, and none
  /// may be touched until the exchange is done.
  std::shared_ptr<HostExchange> start_exchange(std::span<const Communicator::Message> messages) {
    return exchanges_.post(messages);
  }

  /// Like the functions above. If messages do not match, this throws, and other calls of the group
  /// fail only if the exchange has messages that are not over.
  bool done(const std::shared_ptr<HostExchange>& exchange);
  void wait(const std::shared_ptr<HostExchange>& exchange);

  /// Whether a rank is on this host, and so needs memory that it can reach.
  bool is_here(int rank) const { return layout_.host_of(rank) == layout_.host_of(rank_); }

  /// Stops taking part in calls, because the memory of a pending one is about to be freed. Later
  /// calls of this rank throw, and so do the other ranks' calls that need it.
  void abort();

  Progress make_progress() override;
  /// False while messages between hosts are under way.
  bool notifies() const override { return !between_hosts(); }

 private:
  /// A collective between hosts that this rank takes part in.
  struct Spanning {
    std::unique_ptr<SpanningPart> part;
    std::chrono::steady_clock::time_point begin;
    bool finished = false;
  };

  HostRankPart& mine() const { return *members_[me_].part; }
  HostEventCount& event() const { return *members_[me_].event; }
  bool spans_hosts() const { return layout_.hosts() > 1; }
  bool between_hosts() const { return has_spanning_ || exchanges_.between_hosts(); }
  bool is_idle() const { return mine().finished == mine().started && exchanges_.idle(); }
  int rank_of(size_t member) const { return layout_.ranks_of(layout_.host_of(rank_))[member]; }
  const CollectiveCall& call_of(size_t member, uint64_t number) const {
    return members_[member].part->calls[number % HostRankPart::kRing];
  }

  bool all_have(std::atomic<uint64_t> HostRankPart::*count, uint64_t more_than) const;
  bool is_done(uint64_t number) const;
  /// Does this rank's part of the calls that all ranks of the host have started. Requires the lock,
  /// as do the functions that it calls.
  bool do_what_is_ready();
  bool do_next();
  bool begin_spanning();
  bool advance_spanning();
  void finish(uint64_t number);
  std::vector<CollectiveCall> checked_calls(uint64_t number) const;
  void do_part(uint64_t number);
  void do_small(uint64_t number);
  /// Adds what has run since `begin` to the call's timeline, if it has one.
  void note_time(uint64_t number, std::chrono::steady_clock::time_point begin);
  void wait_until(const std::function<bool()>& holds);
  void wait_for_event(const std::function<bool()>& holds);
  void ring_others() const;
  void check_others() const;
  void check_alive() const;
  void fail_with(std::exception_ptr error);
  void throw_error();
  void throw_error_of(const HostExchange& exchange);

  HostLayout layout_;
  int rank_;
  size_t me_;  // this rank's index in members_
  std::vector<HostMember> members_;
  std::vector<pid_t> processes_;
  std::unique_ptr<HostLink> link_;
  SpareBuffers spare_;
  HostExchanges exchanges_;                // uses all of the above, as does the next one
  std::deque<Spanning> spanning_;          // from call `finished` on
  std::atomic<bool> has_spanning_{false};  // read without the lock
  std::function<void()> while_waiting_;
  std::mutex mutex_;  // held while doing this rank's parts
  std::atomic<int> waiting_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written before failed_ is set
  // The timeline of each call in flight, or null.
  std::array<Timeline*, HostRankPart::kRing> timelines_{};
};

}  // namespace tessera
