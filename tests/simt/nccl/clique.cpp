#include "tests/simt/nccl/clique.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/simt/standstill.h"

namespace simt {
namespace {

std::vector<NcclClique*>& cliques() {
  static auto* instance = new std::vector<NcclClique*>;
  return *instance;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

bool gone(const ncclComm* comm) { return comm->state == ncclComm::State::ended; }

}  // namespace

void nccl_fail(const std::string& what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what.c_str());
  std::abort();
}

NcclClique::NcclClique(int size) : members_(static_cast<size_t>(size)) {
  static int made = 0;
  number_ = made++;
  if (cliques().empty()) add_standstill(&NcclClique::standstill);
  cliques().push_back(this);
}

void NcclClique::join(ncclComm& comm) {
  if (members_[static_cast<size_t>(comm.rank)] != nullptr) {
    nccl_fail("two ranks call themselves " + comm.name());
  }
  members_[static_cast<size_t>(comm.rank)] = &comm;
  if (!whole()) return;
  for (const ncclComm* a : members_) {
    for (const ncclComm* b : members_) {
      if (a->rank >= b->rank || a->device != b->device) continue;
      for (ncclComm* member : members_) {
        member->fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a->rank) +
                                           " and rank " + std::to_string(b->rank) +
                                           " both on CUDA device " + std::to_string(a->device));
      }
    }
  }
}

bool NcclClique::whole() const { return std::ranges::count(members_, nullptr) == 0; }

NcclClique::Channel NcclClique::channel_of(int rank, const NcclCall& call) {
  if (!call.is_message()) return {-1, -1};
  return call.kind == NcclKind::send ? Channel{rank, call.root} : Channel{call.root, rank};
}

NcclClique::Link NcclClique::link_of(int rank, const NcclCall& call) {
  return {call.is_message() ? NcclKind::send : call.kind, channel_of(rank, call)};
}

std::vector<int> NcclClique::ranks_of(const Channel& channel) const {
  if (channel.first >= 0) return {channel.first, channel.second};
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) all.push_back(rank);
  return all;
}

bool NcclClique::connected(int rank, const NcclCall& call) const {
  const auto found = links_.find(link_of(rank, call));
  return found != links_.end() && found->second.size() == ranks_of(found->first.second).size();
}

bool NcclClique::connect(int rank, const NcclCall& call) {
  // Two ranks that connect for different calls would wait for each other for ever.
  for (const ncclComm* other : members_) {
    if (other->rank == rank || call.is_message() || !other->first_of_kind) continue;
    const NcclCall& theirs = other->first_of_kind->first;
    if (theirs.is_message() || connected(other->rank, theirs) || belong_together(call, theirs)) {
      continue;
    }
    nccl_fail("ranks of communicator " + std::to_string(number_) + " call different things: rank " +
              std::to_string(other->rank) + " " + describe(theirs) + ", and rank " +
              std::to_string(rank) + " " + describe(call));
  }
  links_[link_of(rank, call)][rank] = true;
  return connected(rank, call);
}

std::shared_ptr<NcclClique::Round> NcclClique::round_of(int rank, const NcclCall& call) {
  const Channel channel = channel_of(rank, call);
  const uint64_t number = calls_[{rank, channel}]++;
  std::shared_ptr<Round>& round = rounds_[{channel, number}];
  if (round == nullptr) round = std::make_shared<Round>(Round{ranks_of(channel)});
  if (!round->posted.empty()) {
    const auto& [other, theirs] = *round->posted.begin();
    if (!belong_together(theirs.call, call)) {
      nccl_fail("ranks of communicator " + std::to_string(number_) +
                " call different things: rank " + std::to_string(other) + " " +
                describe(theirs.call) + ", and rank " + std::to_string(rank) + " " +
                describe(call) + ", each as its call " + std::to_string(number));
    }
  }
  return round;
}

void NcclClique::enqueue(ncclComm& comm, const NcclCall& call, Stream& stream) {
  NcclCall kept = call;
  kept.captured = stream.capture.active();
  enqueue_node(stream,
               [this, &comm, kept, held = comm.graphs](Stream& on) { post(comm, kept, on); });
}

void NcclClique::post(ncclComm& comm, const NcclCall& call, Stream& stream) {
  if (gone(&comm))
    nccl_fail(describe(call) + " is launched on " + comm.name() + ", which has ended");
  const std::shared_ptr<Round> round = round_of(comm.rank, call);
  const uint64_t ticket = stream.enqueued + 1;
  round->posted[comm.rank] = {call, &stream, ticket};
  comm.tickets[&stream] = ticket;
  enqueue_work(stream, [this, &comm, round] { return gone(&comm) || reached(*round, comm.rank); });
  wake_waiting_hosts();
}

bool NcclClique::reached(Round& round, int rank) {
  if (round.done) return true;
  if (round.posted.size() < round.ranks.size()) return false;
  for (const auto& [other, theirs] : round.posted) {
    if (gone(members_[static_cast<size_t>(other)])) return false;
    // The others are let come as far as this, as GPUs of their own would.
    if (other != rank && theirs.stream->done + 1 < theirs.ticket) {
      run_until(*theirs.stream, theirs.ticket - 1);
    }
    if (theirs.stream->done + 1 != theirs.ticket) return false;
  }
  std::vector<NcclCall> calls;
  for (const auto& [other, theirs] : round.posted) calls.push_back(theirs.call);
  move_data(calls);
  round.done = true;
  std::erase_if(rounds_, [&](const auto& entry) { return entry.second.get() == &round; });
  something_happens();
  wake_waiting_hosts();
  return true;
}

bool NcclClique::finalized() const {
  return std::ranges::all_of(members_, [](const ncclComm* member) {
    return member->state >= ncclComm::State::finalizing;
  });
}

void NcclClique::abort(const ncclComm& comm) {
  for (ncclComm* member : members_) {
    if (member == nullptr || member == &comm || gone(member)) continue;
    member->fail(ncclRemoteError, "connection closed by remote peer: " + comm.name());
  }
  wake_waiting_hosts();
}

/// What the round stands still for if nobody goes on; else "".
std::string NcclClique::stuck(const Round& round,
                              const std::function<bool(std::thread::id)>& waits) const {
  std::vector<int> here, missing;
  for (const int rank : round.ranks) {
    const ncclComm* member = members_[static_cast<size_t>(rank)];
    if (member == nullptr || member->error != ncclSuccess || gone(member)) return "";
    const bool posted = round.posted.count(rank) > 0;
    (posted ? here : missing).push_back(rank);
    if (!posted && (member->first_of_kind || !waits(member->owner))) return "";
  }
  if (here.empty()) return "";
  std::string text = list(here) + " of communicator " + std::to_string(number_) + " at " +
                     describe(round.posted.begin()->second.call);
  return missing.empty() ? text + ", which other streams hold"
                         : text + ", which " + list(missing) + " did not call";
}

std::string NcclClique::standstill(const std::function<bool(std::thread::id)>& waits) {
  constexpr size_t kEnough = 1000;  // the first say what the others wait for
  std::string text;
  for (const NcclClique* clique : cliques()) {
    if (!std::ranges::any_of(clique->members_,
                             [](auto* member) { return member && !gone(member); })) {
      continue;
    }
    for (const auto& [key, round] : clique->rounds_) {
      const std::string what = clique->stuck(*round, waits);
      if (what.empty()) return "";
      if (text.size() < kEnough) text += (text.empty() ? "" : "; ") + what;
    }
  }
  return text;
}

}  // namespace simt
