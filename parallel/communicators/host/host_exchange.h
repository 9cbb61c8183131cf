#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/host/host_event_count.h"
#include "parallel/communicators/host/host_layout.h"
#include "parallel/communicators/host/host_link.h"

namespace tessera {

struct HostMember;

/// A rank's oldest message to one other rank of its host, in shared memory. The receiver reads the
/// sender's tensor.
struct HostSlot {
  alignas(64) std::atomic<uint64_t> posted{0};  ///< messages that the sender has put here
  std::atomic<uint64_t> taken{0};               ///< those that the receiver is done with
  Tensor sent = {};      ///< the last one that was put here, at the sender's address
  Tensor expected = {};  ///< by the receiver, if it has refused that one
  bool refused = false;
};

/// A rank's call of exchange.
struct HostExchange {
  explicit HostExchange(size_t messages) : left(messages) {}

  std::atomic<size_t> left;         ///< messages that are not over
  std::atomic<bool> failed{false};  ///< a message did not match
  std::string error = {};           ///< written before `failed` is set
};

/// The messages between a rank of a HostGroup and the others. On one host the receiver copies from
/// the sender's memory. Between hosts, both ends of a message first tell each other its dtype and
/// size, so that both know whether they match, and no data arrives before its receiver has called.
class HostExchanges {
 public:
  /// References that must outlive this object.
  struct Group {
    const HostLayout& layout;
    int rank;
    std::span<const HostMember> members;  ///< of this rank's host
    std::span<const pid_t> processes;     ///< the members'
    HostLink* link;                       ///< null if there is one host
  };
  explicit HostExchanges(const Group& group) : group_(group) {}

  /// Adds messages, which advance() starts. Any thread may call it. Tensors for ranks of this host
  /// must be reachable by them, and none may be touched until no message is left.
  std::shared_ptr<HostExchange> post(std::span<const Communicator::Message> messages);

  /// Does what can be done without waiting, and returns whether that was anything. One thread calls
  /// it at a time. Throws if a rank's memory or the network fails.
  bool advance();

  /// Whether all messages are over. Any thread may ask, as with the next function.
  bool idle() const { return unfinished_ == 0; }
  bool between_hosts() const { return between_hosts_ > 0; }

 private:
  struct Description {
    int64_t dtype = 0, elements = 0;
  };
  struct Queued {
    Communicator::Message message;
    std::shared_ptr<HostExchange> exchange;
    bool started = false;  ///< its data, between hosts; or in its slot
    Description mine = {}, theirs = {};
    std::unique_ptr<HostLink::Transfers> transfers = nullptr;  ///< between hosts
  };
  using Progress = Progressable::Progress;

  bool is_here(int peer) const {
    return group_.layout.host_of(peer) == group_.layout.host_of(group_.rank);
  }
  void take_posted();
  void describe_to_peer(Queued& queued);
  Progress advance(Queued& queued);
  Progress send_here(Queued& queued);
  Progress receive_here(Queued& queued);
  Progress move_between_hosts(Queued& queued);
  void refuse(const Queued& queued, const Tensor& theirs);

  Group group_;
  std::mutex posting_;  // protects posted_
  std::vector<Queued> posted_;
  /// By the other rank and whether this one sends. The pairs are independent; of one pair, the
  /// oldest message advances.
  std::map<std::pair<int, bool>, std::deque<Queued>> queues_;
  std::atomic<size_t> unfinished_{0}, between_hosts_{0};
};

}  // namespace tessera
