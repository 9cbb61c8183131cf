#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/flight_recorder.h"

namespace tessera {

/// A collective that a rank has recorded; see FlightEntry.
struct RecordedCollective {
  uint64_t number = 0, call = 0;
  size_t group = 0;
  int num_peers = 0;
  int64_t step = 0, micro_batch = 0, bytes = 0;
  int64_t started = 0, waited = 0, ended = 0;
  std::string kind, purpose, place;
  std::vector<FlightPeer> peers;
};

/// A group of ranks; see GroupLabel.
struct RecordedGroup {
  std::string name;
  int first = 0, stride = 0, size = 0, rank = 0;
  uint64_t started = 0;  ///< calls so far

  /// The ranks of the world; empty if not known.
  std::vector<int> members() const;
  bool is_same(const RecordedGroup& other) const;
};

/// The content of a rank's flight recorder at a moment; see FlightRing.
struct RankSnapshot {
  int rank = 0, ranks = 0, process = 0;
  uint64_t process_start = 0, pid_namespace = 0;
  std::string host;
  int64_t started = 0, heartbeat = 0;
  RunPhase phase = RunPhase::starting;
  RankEnd end = RankEnd::running;
  int64_t step = 0, micro_batch = 0, micro_batches = 0, steps_here = 0;
  int64_t step_length = 0;
  std::string place;  ///< "step/blocks.3/attention"
  std::string last_words;
  std::vector<RecordedGroup> groups;
  std::vector<RecordedCollective> calls;  ///< the last ones, oldest first

  std::optional<RecordedCollective> waits;  ///< the collective that the rank waits for
  bool waits_for_gpu = false;
  int64_t waiting_since = 0;

  bool is_waiting() const { return waits.has_value() || waits_for_gpu; }
};

/// Reads a flight recorder's file, which may change meanwhile. Throws if it is none.
RankSnapshot read_snapshot(const std::filesystem::path& file);

/// A number that changes if the rank has made progress; 0 if the file cannot be read. In training,
/// only what the rank records is progress. Otherwise the activity of its process is, too, unless it
/// waits.
uint64_t read_progress(const std::filesystem::path& file);

/// The folder of a run's flight recorders, and the file of a rank.
std::filesystem::path flight_folder(const std::filesystem::path& run_dir);
std::filesystem::path flight_file(const std::filesystem::path& folder, int rank);

}  // namespace tessera
