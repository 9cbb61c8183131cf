#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/watchdog/process_state.h"
#include "parallel/watchdog/rank_snapshot.h"

namespace tessera {

/// All that is known about a rank.
struct RankView {
  int rank = 0;
  std::string host;  ///< "" if not known
  int process = 0;
  std::optional<RankSnapshot> ring;
  std::string problem;  ///< why there is no ring
  ProcessState state;

  /// Whether the rank waits for others, and its process could continue.
  bool waits() const { return ring && ring->is_waiting() && is_able(); }
  bool is_able() const { return state.can_move() || state.kind == ProcessState::Kind::unknown; }
};

/// A rank that has not called a collective that another one waits for.
struct MissingRank {
  int rank = 0;
  int waiting_rank = 0;           ///< the one that has waited the longest
  RecordedCollective collective;  ///< that it waits for
  RecordedGroup group;
  bool operator<(const MissingRank& other) const { return rank < other.rank; }
};

/// Reads the flight recorders in `folder` and the states of processes on this host. `host` is this
/// host's name.
std::vector<RankView> view_ranks(const std::string& folder, int ranks, const std::string& host);

/// The ranks that are missing from collectives that others wait for.
std::vector<MissingRank> find_missing(const std::vector<RankView>& views);

/// The ranks that everything waits for: those that are missing and wait for nobody, or whose
/// process cannot continue. Empty if every rank waits for another one.
std::vector<int> find_culprits(const std::vector<RankView>& views);

/// "all_reduce 812 of the tensor ranks 2, 3 (gradients, 1.2 MB)".
std::string describe(const RecordedCollective& collective, const RecordedGroup& group);

/// "rank 2 (host a, process 4711)".
std::string name_of(const RankView& view);

/// "in step 17, micro-batch 2 of 4: step/blocks.3/attention".
std::string place_of(const RankSnapshot& ring);

/// Describes a rank's activity: "waits for 5.1 s in all_reduce 812 of ...". `now` is in nanoseconds
/// since 1970.
std::string activity_of(const RankView& view, int64_t now);

/// Names the missing ranks, each with its place and process: the heart of the report. Pure.
std::string missing_report(const std::vector<RankView>& views, int64_t now);

/// The processes of the ranks of `host`, for a report that is written on another host. Pure.
std::string process_report(const std::vector<RankView>& views, const std::string& host);

/// The report of a hang: who is missing where, what the others do, and what to do. Pure.
std::string hang_report(const std::vector<RankView>& views, double quiet_seconds, int64_t now);

}  // namespace tessera
