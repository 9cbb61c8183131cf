#include "parallel/watchdog/hang_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

namespace tessera {
namespace {

using Kind = ProcessState::Kind;

/// The most waiting ranks in a report; `tessera status` lists all.
constexpr size_t kMostOthers = 64;

std::string with_unit(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", value / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.1f} GB", value / 1e9);
}

std::string join_ranks(const std::vector<int>& ranks) {
  constexpr size_t kMostRanks = 8;
  if (ranks.size() <= kMostRanks) return fmt::format("{}", fmt::join(ranks, ", "));
  return fmt::format("{}, ..., {}", fmt::join(ranks.begin(), ranks.begin() + kMostRanks - 1, ", "),
                     ranks.back());
}

double in_seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

const RankView* find_rank(const std::vector<RankView>& views, int rank) {
  const auto found = std::ranges::find(views, rank, &RankView::rank);
  return found == views.end() ? nullptr : &*found;
}

/// The rank's own entry of the group; null if it has none.
const RecordedGroup* find_group(const RankView& view, const RecordedGroup& group) {
  if (!view.ring) return nullptr;
  const auto found = std::ranges::find_if(
      view.ring->groups, [&](const RecordedGroup& own) { return own.is_same(group); });
  return found == view.ring->groups.end() ? nullptr : &*found;
}

bool is_exchange(const RecordedCollective& call) { return call.num_peers > 0; }

/// Whether `other` has started the ends of all messages that `call` of rank `waiting` and earlier
/// ones of the group exchange with it.
bool has_started(const RankView& other, const RankView& waiting, const RecordedCollective& call,
                 const FlightPeer& peer) {
  const RecordedGroup& group = waiting.ring->groups[call.group];
  const RecordedGroup* theirs = find_group(other, group);
  if (theirs == nullptr) return false;
  const auto index = static_cast<size_t>(theirs - other.ring->groups.data());
  const auto& calls = other.ring->calls;
  for (auto one = calls.rbegin(); one != calls.rend(); ++one) {
    if (one->group != index) continue;
    const auto me = std::ranges::find(one->peers, group.rank, &FlightPeer::rank);
    if (me != one->peers.end()) return me->received >= peer.sent && me->sent >= peer.received;
    // It is in an exchange with more ranks than are recorded.
    if (std::cmp_greater(one->num_peers, one->peers.size()) && one->ended == 0) return true;
  }
  return !calls.empty() && calls[0].number > 0;  // not known: it may have left the ring
}

/// Collects, for each missing rank, who has waited the longest for it.
class Missing {
 public:
  void add(int rank, const RankView& waiting, const RecordedCollective& call,
           const RecordedGroup& group) {
    const auto [place, is_new] = found_.try_emplace(rank);
    if (!is_new && since_[rank] <= waiting.ring->waiting_since) return;
    place->second = {rank, waiting.rank, call, group};
    since_[rank] = waiting.ring->waiting_since;
  }
  std::vector<MissingRank> ranks() const {
    std::vector<MissingRank> all;
    for (const auto& [rank, missing] : found_) all.push_back(missing);
    return all;
  }

 private:
  std::map<int, MissingRank> found_;
  std::map<int, int64_t> since_;
};

void add_missing_from(const RecordedCollective& call, const RankView& waiting,
                      const std::vector<RankView>& views, Missing& missing) {
  const RecordedGroup& group = waiting.ring->groups[call.group];
  const std::vector<int> members = group.members();
  if (is_exchange(call)) {
    for (const FlightPeer& peer : call.peers) {
      const auto index = static_cast<size_t>(peer.rank);
      const RankView* other = index < members.size() ? find_rank(views, members[index]) : nullptr;
      if (other == nullptr || !other->ring || has_started(*other, waiting, call, peer)) continue;
      missing.add(other->rank, waiting, call, group);
    }
    return;
  }
  for (const int member : members) {
    const RankView* other = find_rank(views, member);
    if (other == nullptr || member == waiting.rank || !other->ring) continue;
    const RecordedGroup* theirs = find_group(*other, group);
    if ((theirs == nullptr ? 0 : theirs->started) <= call.call) {
      missing.add(member, waiting, call, group);
    }
  }
}

/// A rank that waits for its GPU has enqueued collectives that others may not have.
void add_missing_on_gpus(const RankView& waiting, const std::vector<RankView>& views,
                         Missing& missing) {
  for (const RecordedCollective& call : waiting.ring->calls) {
    if (is_exchange(call)) add_missing_from(call, waiting, views, missing);
  }
  for (size_t i = 0; i < waiting.ring->groups.size(); ++i) {
    const RecordedGroup& group = waiting.ring->groups[i];
    for (const int member : group.members()) {
      const RankView* other = find_rank(views, member);
      if (other == nullptr || member == waiting.rank || !other->ring) continue;
      const RecordedGroup* theirs = find_group(*other, group);
      const uint64_t started = theirs == nullptr ? 0 : theirs->started;
      if (started >= group.started) continue;
      const auto call = std::ranges::find_if(waiting.ring->calls, [&](const auto& made) {
        return made.group == i && made.call == started && !is_exchange(made);
      });
      if (call != waiting.ring->calls.end()) missing.add(member, waiting, *call, group);
    }
  }
}

std::string advice_for(const RankView& view) {
  std::string name = fmt::format("rank {}", view.rank);
  switch (view.state.kind) {
    case Kind::stopped:
      return fmt::format(
          "{0}: a signal (SIGSTOP, SIGTSTP), a debugger or a scheduler has stopped its process. "
          "`kill -CONT {1}` on host {2} lets it continue, while the others wait",
          name, view.process, view.host);
    case Kind::gone:
    case Kind::zombie:
      return fmt::format(
          "{}: its process ended without a message. If the system killed it for lack of memory, "
          "the kernel log of host {} says so (`dmesg`)",
          name, view.host);
    case Kind::blocked:
      return fmt::format(
          "{}: its process waits for a disk, a network file system or a driver of host {}; check "
          "these, and `dmesg`",
          name, view.host);
    case Kind::unknown:
      return fmt::format(
          "{0}: run `tessera status` on its host {1}, which shows what its process does. If the "
          "host does not answer, replace it",
          name, view.host.empty() ? "(unknown)" : view.host);
    case Kind::running:
      return fmt::format(
          "{0}: its process computes, but enters no layer, op or collective. `gdb -p {1}` on host "
          "{2} shows where; if it is only slow, raise run.hang_timeout",
          name, view.process, view.host);
    case Kind::sleeping:
      return fmt::format(
          "{0}: its process waits for something that is no collective. The kernel functions above "
          "say for what; `gdb -p {1}` on host {2} shows where",
          name, view.process, view.host);
  }
  return name;
}

std::string thread_lines(const ProcessState& state) {
  std::string text;
  for (const ProcessState::Thread& thread : state.threads) {
    text += fmt::format("      thread {} {} state {}{}{}\n", thread.id, thread.name, thread.state,
                        thread.system_call.empty() ? "" : ", system call " + thread.system_call,
                        thread.kernel.empty() ? "" : ", in " + thread.kernel);
  }
  return text;
}

std::string heartbeat_of(const RankView& view, int64_t now) {
  if (!view.ring || view.state.kind != Kind::unknown) return "";
  return fmt::format("; its last heartbeat is {:.0f} s old",
                     in_seconds(now - view.ring->heartbeat));
}

std::string culprit_lines(const RankView& view, const std::vector<MissingRank>& missing,
                          int64_t now) {
  std::string text = "  " + name_of(view);
  const auto from = std::ranges::find(missing, view.rank, &MissingRank::rank);
  if (from != missing.end()) {
    text += fmt::format(" is missing from {}, in which rank {} waits\n",
                        describe(from->collective, from->group), from->waiting_rank);
  } else {
    text += " " + activity_of(view, now) + "\n";
  }
  if (view.ring) {
    text += fmt::format("    it is {}\n", place_of(*view.ring));
    if (view.ring->end == RankEnd::failed) {
      text += fmt::format("    it has failed: {}\n", view.ring->last_words);
    }
    if (from != missing.end() && view.ring->is_waiting()) {
      text += fmt::format("    it {}\n", activity_of(view, now));
    }
  } else {
    text += fmt::format("    its flight recorder cannot be read: {}\n", view.problem);
  }
  text += fmt::format("    its process {}{}\n", to_string(view.state), heartbeat_of(view, now));
  return text + thread_lines(view.state);
}

/// The ranks that wait in a collective which all of its ranks have entered.
std::vector<const RankView*> find_stuck(const std::vector<RankView>& views) {
  std::vector<const RankView*> stuck;
  for (const RankView& view : views) {
    if (!view.ring || !view.ring->waits) continue;
    Missing missing;
    add_missing_from(*view.ring->waits, view, views, missing);
    if (missing.ranks().empty()) stuck.push_back(&view);
  }
  return stuck;
}

/// "hosts a, b"; "" for one host.
std::string hosts_of(const std::vector<RankView>& views, const RecordedGroup& group) {
  std::set<std::string> hosts;
  for (const int member : group.members()) {
    const RankView* view = find_rank(views, member);
    if (view != nullptr && !view->host.empty()) hosts.insert(view->host);
  }
  return hosts.size() < 2 ? "" : fmt::format("hosts {}", fmt::join(hosts, ", "));
}

struct Explanation {
  std::vector<int> named;
  std::string text, advice;  ///< lines
};

Explanation explain(const std::vector<RankView>& views, int64_t now) {
  const std::vector<MissingRank> missing = find_missing(views);
  Explanation found;
  found.named = find_culprits(views);
  const bool known = !found.named.empty();
  const std::vector<const RankView*> stuck =
      known ? std::vector<const RankView*>() : find_stuck(views);
  if (!stuck.empty()) {
    const RankSnapshot& ring = *stuck[0]->ring;
    const RecordedGroup& group = ring.groups[ring.waits->group];
    const std::string hosts = hosts_of(views, group);
    for (const RankView* view : stuck) found.named.push_back(view->rank);
    found.text = fmt::format("  all have entered {}, but its transfer does not end on {} {}\n",
                             describe(*ring.waits, group), stuck.size() == 1 ? "rank" : "ranks",
                             join_ranks(found.named));
    found.advice =
        fmt::format("  check the {}{} (`dmesg`)\n",
                    hosts.empty() ? "" : "network between " + hosts + ", ", "GPUs and their links");
  } else if (!known && !missing.empty()) {
    found.text = "  every rank waits for another one: they call collectives in different orders\n";
    found.advice = "  this is an error of the program, not of the machine: please report it\n";
    for (const MissingRank& rank : missing) found.named.push_back(rank.rank);
  } else if (!known) {
    found.text = "  no rank is missing: all have entered the collectives that they wait in\n";
    found.advice =
        "  the transfer itself does not end: check the network between the hosts, and GPUs and "
        "their links (`dmesg`)\n";
  }
  for (const int rank : found.named) {
    const RankView* view = find_rank(views, rank);
    if (view == nullptr) continue;
    found.text += culprit_lines(*view, missing, now);
    if (known) found.advice += "  " + advice_for(*view) + "\n";
  }
  return found;
}

}  // namespace

std::vector<RankView> view_ranks(const std::string& folder, int ranks, const std::string& host) {
  std::vector<RankView> views;
  for (int rank = 0; rank < ranks; ++rank) {
    RankView view;
    view.rank = rank;
    try {
      view.ring = read_snapshot(flight_file(folder, rank));
      view.host = view.ring->host;
      view.process = view.ring->process;
      if (view.host == host) {
        view.state =
            read_process_state(view.process, view.ring->process_start, view.ring->pid_namespace);
      }
    } catch (const std::exception& error) {
      view.problem = error.what();
    }
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<MissingRank> find_missing(const std::vector<RankView>& views) {
  Missing missing;
  for (const RankView& view : views) {
    if (!view.ring) continue;
    if (view.ring->waits) add_missing_from(*view.ring->waits, view, views, missing);
    if (view.ring->waits_for_gpu) add_missing_on_gpus(view, views, missing);
  }
  return missing.ranks();
}

std::vector<int> find_culprits(const std::vector<RankView>& views) {
  const std::vector<MissingRank> missing = find_missing(views);
  std::set<int> culprits;
  for (const RankView& view : views) {
    const bool is_missing =
        std::ranges::find(missing, view.rank, &MissingRank::rank) != missing.end();
    if (!view.is_able() || !view.ring || (is_missing && !view.ring->is_waiting())) {
      culprits.insert(view.rank);
    }
  }
  return {culprits.begin(), culprits.end()};
}

std::string describe(const RecordedCollective& collective, const RecordedGroup& group) {
  const std::vector<int> members = group.members();
  std::string ranks;
  if (group.name == "world") {
    ranks = fmt::format("all {} ranks", group.size);
  } else if (members.empty()) {
    ranks = fmt::format("a group of {} ranks", group.size);
  } else {
    ranks = fmt::format("the {} ranks {}", group.name, join_ranks(members));
  }
  std::string what = fmt::format("{} {} of {}", collective.kind, collective.call, ranks);
  if (is_exchange(collective)) {
    std::vector<int> peers;
    for (const FlightPeer& peer : collective.peers) {
      const auto index = static_cast<size_t>(peer.rank);
      peers.push_back(index < members.size() ? members[index] : peer.rank);
    }
    what = fmt::format("{} of {} with rank{} {}", collective.kind, ranks,
                       collective.num_peers == 1 ? "" : "s", join_ranks(peers));
    if (std::cmp_greater(collective.num_peers, peers.size())) what += " and others";
  }
  return fmt::format("{} ({}, {})", what, collective.purpose, with_unit(collective.bytes));
}

std::string name_of(const RankView& view) {
  if (view.host.empty()) return fmt::format("rank {}", view.rank);
  return fmt::format("rank {} (host {}, process {})", view.rank, view.host, view.process);
}

std::string place_of(const RankSnapshot& ring) {
  std::string text;
  switch (ring.phase) {
    case RunPhase::starting:
      text = "starting";
      break;
    case RunPhase::evaluating:
      text = fmt::format("evaluating after step {}", ring.step);
      break;
    case RunPhase::saving:
      text = fmt::format("saving after step {}", ring.step);
      break;
    case RunPhase::training:
      text = fmt::format("in step {}", ring.step);
      if (ring.micro_batch > 0) {
        text += fmt::format(", micro-batch {} of {}", ring.micro_batch, ring.micro_batches);
      }
      break;
  }
  if (!ring.place.empty()) text += ": " + ring.place;
  return text;
}

std::string activity_of(const RankView& view, int64_t now) {
  if (!view.ring) return "has no readable flight recorder: " + view.problem;
  const RankSnapshot& ring = *view.ring;
  const double waited = std::max(0.0, in_seconds(now - ring.waiting_since));
  if (ring.waits_for_gpu) return fmt::format("has waited {:.1f} s for its GPU", waited);
  if (ring.waits) {
    return fmt::format("has waited {:.1f} s in {}", waited,
                       describe(*ring.waits, ring.groups[ring.waits->group]));
  }
  return "waits for no collective";
}

std::string missing_report(const std::vector<RankView>& views, int64_t now) {
  return explain(views, now).text;
}

std::string process_report(const std::vector<RankView>& views, const std::string& host) {
  const std::vector<int> culprits = find_culprits(views);
  std::string text;
  for (const RankView& view : views) {
    if (view.host != host) continue;
    text += fmt::format("  {}: its process {}\n", name_of(view), to_string(view.state));
    const bool is_named = std::ranges::find(culprits, view.rank) != culprits.end();
    if (is_named || !view.is_able()) text += thread_lines(view.state);
  }
  return text;
}

std::string hang_report(const std::vector<RankView>& views, double quiet_seconds, int64_t now) {
  const Explanation found = explain(views, now);
  std::string text =
      fmt::format("the run hangs: no rank has made progress for {:.1f} s\n", quiet_seconds);
  text += found.text + "the other ranks:\n";
  size_t shown = 0;
  for (const RankView& view : views) {
    if (std::ranges::find(found.named, view.rank) != found.named.end()) continue;
    if (++shown > kMostOthers) continue;
    text += fmt::format("  {} {}{}\n", name_of(view), activity_of(view, now),
                        view.ring ? "; it is " + place_of(*view.ring) : "");
    text += fmt::format("    its process {}{}\n", to_string(view.state), heartbeat_of(view, now));
  }
  if (shown > kMostOthers) {
    text += fmt::format("  and {} more, which `tessera status` lists\n", shown - kMostOthers);
  }
  return text + "what to do:\n" + found.advice +
         "  the same command resumes the run from its last checkpoint\n";
}

}  // namespace tessera
