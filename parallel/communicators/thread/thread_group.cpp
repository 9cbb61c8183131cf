#include "parallel/communicators/thread/thread_group.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

// Up to this size, waking other threads costs more than the work, so the last rank to post runs it.
constexpr size_t kSmallBytes = size_t{128} << 10;

bool is_small(const CollectiveCall& call, int ranks) {
  return call.bytes() * static_cast<size_t>(ranks) <= kSmallBytes;
}

// A rank that has posted, to report its call to the others.
size_t first_posted(const ThreadCollective& collective) {
  const auto& has_posted = collective.has_posted;
  return static_cast<size_t>(std::find(has_posted.begin(), has_posted.end(), true) -
                             has_posted.begin());
}

}  // namespace

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks)
    : world_(std::move(world)), world_ranks_(std::move(world_ranks)), next_(world_ranks_.size()) {
  const Lock lock(world_->mutex);
  changed_ = world_->add_condition(lock);
}

std::shared_ptr<ThreadCollective> ThreadGroup::post(int rank, const CollectiveCall& call) {
  const Lock lock(world_->mutex);
  world_->check(describe(call), lock);
  const auto me = static_cast<size_t>(rank);
  const int64_t number = next_[me]++;
  const auto place = static_cast<size_t>(number - first_open_);
  if (place == open_.size()) open_.push_back(std::make_shared<ThreadCollective>(next_.size()));
  auto collective = open_[place];

  if (collective->posted == 0) {
    collective->pieces = is_small(call, size()) ? 1 : size();
  } else if (!collective->error) {
    const size_t other = first_posted(*collective);
    const CollectiveCall& theirs = collective->calls[other];
    if (call.collective == Collective::exchange) {
      const auto& [sent, expected] = rank == 0 ? std::tie(call, theirs) : std::tie(theirs, call);
      if (!match(sent.input, expected.input)) {
        collective->error.message = mismatch(call.root, sent.input, call.key, expected.input);
      }
    } else if (!agree(call, theirs)) {
      collective->error.message = fmt::format(
          "the ranks of a group disagree on its collective number {}: rank {} called {}, but rank "
          "{} called {}",
          number, other, describe(theirs), rank, describe(call));
    }
  }
  collective->calls[me] = call;
  collective->has_posted[me] = true;
  // Every rank posts in order, so the oldest open collective is the first to be complete.
  if (++collective->posted == size()) {
    open_.pop_front();
    ++first_open_;
  }

  if (collective->error) {
    changed_->notify_all();
    throw_error(collective->error);
  }
  // The last rank to post a small blocking collective finishes it at once, so one notification
  // suffices.
  const bool finishes_now = collective->pieces == 1 && call.wait == Wait::at_once;
  if (collective->posted == size() && !finishes_now) changed_->notify_all();
  return collective;
}

void ThreadGroup::wait(ThreadCollective& collective) {
  Lock lock(world_->mutex);
  while (!advance(collective, std::numeric_limits<int>::max(), lock)) changed_->wait(lock);
}

bool ThreadGroup::progress(ThreadCollective& collective) {
  Lock lock(world_->mutex);
  return advance(collective, 1, lock);
}

void ThreadGroup::abandon(ThreadCollective& collective, int rank) {
  Lock lock(world_->mutex);
  if (collective.posted < size() && !collective.error) {
    const auto& call = collective.calls[static_cast<size_t>(rank)];
    collective.error = {fmt::format("{}: world rank {} left it because of an error", describe(call),
                                    world_ranks_[static_cast<size_t>(rank)]),
                        /*of_peer=*/true};
    changed_->notify_all();
  }
  if (collective.error) return;
  while (!advance(collective, std::numeric_limits<int>::max(), lock)) changed_->wait(lock);
}

bool ThreadGroup::advance(ThreadCollective& collective, int max_pieces, Lock& lock) {
  if (collective.error) throw_error(collective.error);
  if (collective.posted < size()) {
    check_can_complete(collective, lock);
    return false;
  }
  for (int i = 0; i < max_pieces && collective.claimed < collective.pieces; ++i) {
    run_piece(collective, lock);
  }
  return collective.done == collective.pieces;
}

void ThreadGroup::run_piece(ThreadCollective& collective, Lock& lock) {
  const int piece = collective.claimed++;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (collective.calls[0].collective == Collective::split) split(collective);
    const int parts = collective.pieces == 1 ? size() : 1;
    for (int i = 0; i < parts; ++i) run_part(collective.calls, /*processes=*/{}, piece + i);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error != nullptr) {
    collective.error.message = fmt::format("{}: out of memory", describe(collective.calls[0]));
    changed_->notify_all();
    std::rethrow_exception(error);
  }
  if (++collective.done == collective.pieces) changed_->notify_all();
}

// Throws if a rank that has not posted never will. No rank's tensors are touched afterwards.
void ThreadGroup::check_can_complete(ThreadCollective& collective, const Lock& lock) {
  try {
    const std::string operation = describe(collective.calls[first_posted(collective)]);
    world_->check(operation, lock);
    for (size_t peer = 0; peer < world_ranks_.size(); ++peer) {
      if (!collective.has_posted[peer]) check_peer(static_cast<int>(peer), operation, lock);
    }
  } catch (const Error&) {
    collective.error = handled_error();
    changed_->notify_all();
    throw;
  }
}

void ThreadGroup::split(ThreadCollective& collective) const {
  std::map<int, std::vector<size_t>> members;  // by color
  for (size_t rank = 0; rank < world_ranks_.size(); ++rank) {
    members[collective.calls[rank].color].push_back(rank);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
      return collective.calls[a].key < collective.calls[b].key;
    });
    std::vector<int> world_ranks;
    for (const size_t rank : ranks) world_ranks.push_back(world_ranks_[rank]);
    const auto group = std::make_shared<ThreadGroup>(world_, std::move(world_ranks));
    for (size_t i = 0; i < ranks.size(); ++i) {
      collective.places[ranks[i]] = {group, static_cast<int>(i)};
    }
  }
}

std::shared_ptr<ThreadGroup> ThreadGroup::pair(int sender, int receiver) {
  const std::lock_guard lock(pairs_mutex_);
  std::shared_ptr<ThreadGroup>& pair = pairs_[{sender, receiver}];
  if (pair == nullptr) {
    pair = std::make_shared<ThreadGroup>(
        world_, std::vector<int>{world_ranks_[static_cast<size_t>(sender)],
                                 world_ranks_[static_cast<size_t>(receiver)]});
  }
  return pair;
}

void ThreadGroup::check_peer(int peer, const std::string& operation, const Lock& lock) const {
  world_->check(operation, lock);
  const int world_rank = world_ranks_[static_cast<size_t>(peer)];
  require(!world_->returned(world_rank, lock),
          "{}: world rank {} has returned and will not participate", operation, world_rank);
}

}  // namespace tessera
