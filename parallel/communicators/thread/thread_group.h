#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicators/collective_call.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/thread/thread_world.h"

namespace tessera {

class ThreadGroup;

/// One collective: every rank's call and the progress of the work. The work is divided into pieces
/// that any rank may run once all have posted. Ranks may therefore wait for several pending
/// collectives in different orders, and the result does not depend on which rank ran which piece.
struct ThreadCollective {
  struct Place {
    std::shared_ptr<ThreadGroup> group;
    int rank = 0;
  };

  explicit ThreadCollective(size_t size) : calls(size), has_posted(size), places(size) {}

  std::vector<CollectiveCall> calls;
  std::vector<bool> has_posted;
  int posted = 0;
  int pieces = 1;
  int claimed = 0;
  int done = 0;
  RankError error;            ///< if any, every rank throws it and no further piece runs
  std::vector<Place> places;  ///< for a split: each rank's new group
};

/// A group of ranks that are threads. Every rank posts its call; when all have posted, data is
/// copied or reduced directly between the ranks' tensors.
class ThreadGroup {
 public:
  /// `world_ranks` are the members' world ranks, in rank order of this group.
  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks_.size()); }

  /// Posts `rank`'s next collective and returns immediately. Throws if it differs from what the
  /// others posted or if a rank has failed.
  std::shared_ptr<ThreadCollective> post(int rank, const CollectiveCall& call);

  /// Waits until the result is in place on all ranks.
  void wait(ThreadCollective& collective);

  /// Runs a piece of the work if one is available. Returns true when the result is in place on all
  /// ranks.
  bool progress(ThreadCollective& collective);

  /// For a rank that is unwinding because of an exception. Withdraws its tensors from a collective
  /// that not all ranks have posted, which then fails on the other ranks; finishes any other
  /// collective.
  void abandon(ThreadCollective& collective, int rank);

  /// The group of a sender (rank 0) and a receiver (rank 1). A message is a collective of the two.
  std::shared_ptr<ThreadGroup> pair(int sender, int receiver);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // The following are called with the world's lock held.
  bool advance(ThreadCollective& collective, int max_pieces, Lock& lock);
  void run_piece(ThreadCollective& collective, Lock& lock);
  void check_can_complete(ThreadCollective& collective, const Lock& lock);
  void check_peer(int peer, const std::string& operation, const Lock& lock) const;

  void split(ThreadCollective& collective) const;

  std::shared_ptr<ThreadWorld> world_;
  std::vector<int> world_ranks_;
  std::shared_ptr<std::condition_variable> changed_;
  std::vector<int64_t> next_;  ///< each rank's next collective
  std::deque<std::shared_ptr<ThreadCollective>>
      open_;                ///< collectives that not all ranks have posted
  int64_t first_open_ = 0;  ///< the number of open_.front()
  std::mutex pairs_mutex_;  // protects pairs_
  std::map<std::pair<int, int>, std::shared_ptr<ThreadGroup>> pairs_;
};

}  // namespace tessera
