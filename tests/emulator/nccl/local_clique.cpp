#include "tests/emulator/nccl/local_clique.h"

#include <algorithm>

#include "tests/emulator/deadlock.h"
#include "tests/emulator/nccl/remote_rank.h"

namespace emulator {
namespace {

std::map<uint64_t, NcclLocalClique*>& cliques() {
  static auto* instance = new std::map<uint64_t, NcclLocalClique*>;
  return *instance;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

NcclLocalClique& NcclLocalClique::of(uint64_t number, int rank, int size) {
  if (cliques().empty()) add_deadlock_check(&NcclLocalClique::deadlock);
  NcclLocalClique*& clique = cliques()[number];
  if (clique == nullptr) clique = new NcclLocalClique(number, size);
  if (clique->size() != size) {
    nccl_fail("rank " + std::to_string(rank) + " joins communicator " + std::to_string(number) +
              " as one of " + std::to_string(size) + " ranks, but others as one of " +
              std::to_string(clique->size()));
  }
  return *clique;
}

NcclLocalClique::NcclLocalClique(uint64_t number, int size)
    : NcclClique(number, size), members_(static_cast<size_t>(size)) {}

void NcclLocalClique::join(ncclComm& comm) {
  if (members_[static_cast<size_t>(comm.rank)] != nullptr) {
    nccl_fail("two ranks claim to be " + comm.name());
  }
  members_[static_cast<size_t>(comm.rank)] = &comm;
  if (!all_joined()) return;
  for (const ncclComm* a : members_) {
    for (const ncclComm* b : members_) {
      if (a->rank >= b->rank || a->device != b->device || a->host != b->host) continue;
      for (ncclComm* member : members_) {
        member->fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a->rank) +
                                           " and rank " + std::to_string(b->rank) +
                                           " both on CUDA device " + std::to_string(a->device));
      }
    }
  }
  send_statuses();
}

bool NcclLocalClique::all_joined() const { return std::ranges::count(members_, nullptr) == 0; }

void NcclLocalClique::send_statuses() const {
  for (const ncclComm* member : members_) {
    if (member != nullptr && member->remote != nullptr) member->remote->send_status();
  }
}

std::vector<int> NcclLocalClique::ranks_of(const NcclChannel& channel) const {
  if (channel.sender >= 0) return {channel.sender, channel.receiver};
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) all.push_back(rank);
  return all;
}

void NcclLocalClique::connect(int rank, const NcclCall& call) {
  // Two ranks that connect for different calls would wait for each other forever.
  for (const ncclComm* other : members_) {
    if (other->rank == rank || call.is_message() || !other->connecting) continue;
    const NcclCall& theirs = *other->connecting;
    if (theirs.is_message() || has_links(other->rank, theirs) || belong_together(call, theirs)) {
      continue;
    }
    nccl_fail("ranks of communicator " + std::to_string(number()) +
              " call different operations: rank " + std::to_string(other->rank) + " " +
              describe(theirs) + ", and rank " + std::to_string(rank) + " " + describe(call));
  }
  links_[link_of(rank, call)][rank] = true;
  if (has_links(rank, call)) {
    send_statuses();
    wake_waiting_hosts();
  }
}

bool NcclLocalClique::has_links(int rank, const NcclCall& call) const {
  const auto found = links_.find(link_of(rank, call));
  return found != links_.end() && found->second.size() == ranks_of(found->first.channel).size();
}

std::vector<NcclLink> NcclLocalClique::links(int rank) const {
  std::vector<NcclLink> links;
  for (const auto& [link, requested] : links_) {
    if (requested.count(rank) > 0 && requested.size() == ranks_of(link.channel).size()) {
      links.push_back(link);
    }
  }
  return links;
}

std::shared_ptr<NcclLocalClique::Round> NcclLocalClique::add(int rank, const Part& part) {
  const NcclChannel channel = channel_of(rank, part.call);
  const uint64_t number = calls_[{rank, channel}]++;
  std::shared_ptr<Round>& round = rounds_[{channel, number}];
  if (round == nullptr) round = std::make_shared<Round>(Round{ranks_of(channel)});
  if (!round->parts.empty()) {
    const auto& [other, theirs] = *round->parts.begin();
    if (!belong_together(theirs.call, part.call)) {
      nccl_fail("ranks of communicator " + std::to_string(this->number()) +
                " call different operations: rank " + std::to_string(other) + " " +
                describe(theirs.call) + ", and rank " + std::to_string(rank) + " " +
                describe(part.call) + ", each as its call " + std::to_string(number));
    }
  }
  round->parts[rank] = part;
  return round;
}

Work NcclLocalClique::post(const ncclComm& comm, const NcclCall& call,
                           const std::shared_ptr<NcclKernel>& kernel) {
  // Lets the rank's GPU work up to this call, in parallel with the ranks that wait for it.
  const auto advance = [kernel] {
    Stream& stream = *kernel->stream;
    if (stream.done + 1 < kernel->ticket) run_until(stream, kernel->ticket - 1);
    return stream.done + 1 == kernel->ticket && may_run(kernel);
  };
  return [this, round = add(comm.rank, {call, advance})] { return reached(*round); };
}

bool NcclLocalClique::reached(Round& round) {
  if (round.done) return true;
  round.requested = true;
  if (round.parts.size() < round.ranks.size()) return false;
  for (const auto& [rank, part] : round.parts) {
    if (members_[static_cast<size_t>(rank)]->has_ended() || !part.advance()) return false;
  }
  if (round.done) return true;  // done by a rank that arrived above
  std::vector<NcclCall> calls;
  for (const auto& [rank, part] : round.parts) calls.push_back(part.call);
  move_data(calls);
  round.done = true;
  for (const auto& [rank, part] : round.parts) part.done();
  std::erase_if(rounds_, [&](const auto& entry) { return entry.second.get() == &round; });
  something_happens();
  wake_waiting_hosts();
  return true;
}

void NcclLocalClique::run_requested_rounds() {
  for (const auto& [number, clique] : cliques()) {
    if (!std::ranges::any_of(clique->members_,
                             [](auto* member) { return member && member->remote; })) {
      continue;
    }
    std::vector<std::shared_ptr<Round>> requested;
    for (const auto& [key, round] : clique->rounds_) {
      if (round->requested) requested.push_back(round);
    }
    for (const auto& round : requested) clique->reached(*round);
  }
}

void NcclLocalClique::state_changed(const ncclComm& /*comm*/) {
  if (finalized()) send_statuses();
}

bool NcclLocalClique::finalized() const {
  return std::ranges::all_of(members_, [](const ncclComm* member) {
    return member != nullptr && member->state >= ncclComm::State::finalizing;
  });
}

void NcclLocalClique::abort(const ncclComm& comm) {
  for (ncclComm* member : members_) {
    if (member == nullptr || member == &comm || member->has_ended()) continue;
    member->fail(ncclRemoteError, "connection closed by remote peer: " + comm.name());
  }
  wake_waiting_hosts();
}

/// Describes what the round waits for if nobody can continue; otherwise "".
std::string NcclLocalClique::stuck(const Round& round,
                                   const std::function<bool(std::thread::id)>& waits) const {
  std::vector<int> here, missing;
  for (const int rank : round.ranks) {
    const ncclComm* member = members_[static_cast<size_t>(rank)];
    if (member == nullptr || member->error != ncclSuccess || member->has_ended()) return "";
    if (member->remote != nullptr) return "";  // what its process waits for is unknown here
    const bool posted = round.parts.count(rank) > 0;
    (posted ? here : missing).push_back(rank);
    if (!posted && (member->connecting || !waits(member->owner))) return "";
  }
  if (here.empty()) return "";
  // If all have called it, a thread that has not tried since the last event may still get there.
  if (missing.empty() && !std::ranges::all_of(here, [&](int rank) {
        return waits(members_[static_cast<size_t>(rank)]->owner);
      })) {
    return "";
  }
  std::string text = list(here) + " of communicator " + std::to_string(number()) + " at " +
                     describe(round.parts.begin()->second.call);
  return missing.empty() ? text + ", which other streams hold"
                         : text + ", which " + list(missing) + " did not call";
}

std::string NcclLocalClique::stuck(const NcclLink& link, int requested_by,
                                   const std::function<bool(std::thread::id)>& waits) const {
  for (const int rank : ranks_of(link.channel)) {
    const ncclComm* member = members_[static_cast<size_t>(rank)];
    if (member->error != ncclSuccess || member->has_ended() || member->remote != nullptr ||
        !waits(member->owner)) {
      return "";
    }
  }
  const ncclComm& one = *members_[static_cast<size_t>(requested_by)];
  return one.name() + " connects for " +
         (one.connecting ? describe(*one.connecting) : std::string("a call")) +
         ", which not all of its ranks call";
}

std::string NcclLocalClique::deadlock(const std::function<bool(std::thread::id)>& waits) {
  constexpr size_t kEnough = 1000;  // the first ones explain the others
  std::string text;
  for (const auto& [number, clique] : cliques()) {
    if (!std::ranges::any_of(clique->members_,
                             [](auto* member) { return member && !member->has_ended(); })) {
      continue;
    }
    std::vector<std::string> all;
    for (const auto& [key, round] : clique->rounds_) all.push_back(clique->stuck(*round, waits));
    for (const auto& [link, requested] : clique->links_) {
      if (requested.size() == clique->ranks_of(link.channel).size()) continue;
      all.push_back(clique->stuck(link, requested.begin()->first, waits));
    }
    for (const std::string& what : all) {
      if (what.empty()) return "";
      if (text.size() < kEnough) text += (text.empty() ? "" : "; ") + what;
    }
  }
  return text;
}

}  // namespace emulator
