#include "parallel/watchdog/rank_snapshot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "core/error.h"

namespace tessera {
namespace {

constexpr int64_t kWarmUpSteps = 2;

/// Memory for a copy of a ring.
struct RingCopy {
  alignas(FlightRing) std::array<std::byte, sizeof(FlightRing)> bytes;
  const FlightRing& ring() const { return *reinterpret_cast<const FlightRing*>(bytes.data()); }
};

/// Reads the first `bytes` bytes; "" or why that failed. Opens the file each time, because network
/// file systems look for new data then.
std::string read_ring(const std::filesystem::path& path, RingCopy& copy, size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::generic_category().message(errno);
  const ssize_t count = ::pread(file, copy.bytes.data(), bytes, 0);
  const int error = errno;
  ::close(file);
  if (count < 0) return std::generic_category().message(error);
  const FlightRing& ring = copy.ring();
  const bool known = count == static_cast<ssize_t>(bytes) &&
                     ring.magic.load() == FlightRing::kMagic &&
                     ring.version == FlightRing::kVersion && ring.bytes == sizeof(FlightRing);
  return known ? "" : "it is no flight recorder of this version of Tessera";
}

template <size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  return {text.data(), ::strnlen(text.data(), kSize)};
}

std::string place_of(const PlaceStack& places) {
  std::string place;
  const uint32_t depth = std::min(places.depth.load(), PlaceStack::kDepth);
  for (uint32_t i = 0; i < depth; ++i) {
    place += (place.empty() ? "" : "/") + text_of(places.names[i]);
  }
  return place;
}

RecordedCollective collective_of(const FlightEntry& entry) {
  // An entry that is being written may have any value.
  const int known = std::clamp(entry.num_peers, 0, static_cast<int>(FlightEntry::kPeers));
  return {entry.number.load() - 1,
          entry.call,
          static_cast<size_t>(entry.group),
          entry.num_peers,
          entry.step,
          entry.micro_batch,
          entry.bytes,
          entry.started,
          entry.waited.load(),
          entry.ended.load(),
          text_of(entry.kind),
          text_of(entry.purpose),
          text_of(entry.place),
          {entry.peers.begin(), entry.peers.begin() + known}};
}

}  // namespace

std::vector<int> RecordedGroup::members() const {
  std::vector<int> ranks;
  if (stride > 0) {
    for (int i = 0; i < size; ++i) ranks.push_back(first + i * stride);
  }
  return ranks;
}

bool RecordedGroup::is_same(const RecordedGroup& other) const {
  return name == other.name && first == other.first && stride == other.stride && size == other.size;
}

RankSnapshot read_snapshot(const std::filesystem::path& file) {
  const auto copy = std::make_unique<RingCopy>();
  const std::string problem = read_ring(file, *copy, sizeof(FlightRing));
  require(problem.empty(), "{} cannot be read: {}", file.string(), problem);
  const FlightRing& ring = copy->ring();
  RankSnapshot made;
  made.rank = ring.rank;
  made.ranks = ring.ranks;
  made.process = ring.process;
  made.process_start = ring.process_start;
  made.pid_namespace = ring.pid_namespace;
  made.host = text_of(ring.host);
  made.started = ring.started;
  made.heartbeat = ring.heartbeat;
  made.phase = ring.phase;
  made.end = ring.end;
  made.step = ring.step;
  made.micro_batch = ring.micro_batch;
  made.micro_batches = ring.micro_batches;
  made.steps_here = ring.steps_here;
  made.step_length = ring.step_length;
  made.place = place_of(ring.places);
  made.last_words = text_of(ring.last_words);
  const size_t groups = std::min<size_t>(ring.num_groups, FlightRing::kGroups);
  for (size_t i = 0; i < groups; ++i) {
    const FlightGroup& group = ring.groups[i];
    made.groups.push_back({text_of(group.name), group.first, group.stride, group.size, group.rank,
                           group.started.load()});
  }
  const uint64_t entries = ring.entries, waiting = ring.waiting;
  made.waiting_since = ring.waiting_since;
  made.waits_for_gpu = waiting == FlightRing::kGpu;
  const uint64_t oldest = entries - std::min<uint64_t>(entries, FlightRing::kEntries);
  for (uint64_t number = oldest; number < entries; ++number) {
    const FlightEntry& entry = ring.ring[number % FlightRing::kEntries];
    // Skip what is being written, and what a damaged file says.
    if (entry.number.load() != number + 1 || entry.group < 0) continue;
    if (static_cast<size_t>(entry.group) >= groups) continue;
    made.calls.push_back(collective_of(entry));
    if (waiting == number + 1) made.waits = made.calls.back();
  }
  return made;
}

uint64_t read_progress(const std::filesystem::path& file) {
  const auto copy = std::make_unique<RingCopy>();
  constexpr size_t kHead = offsetof(FlightRing, groups);
  if (!read_ring(file, *copy, kHead).empty()) return 0;
  const FlightRing& ring = copy->ring();
  const bool warms_up = ring.steps_here.load() < kWarmUpSteps;
  const bool counts_activity =
      ring.waiting.load() == 0 && (ring.phase.load() != RunPhase::training || warms_up);
  return ring.places.events.load() + ring.entries.load() +
         (counts_activity ? ring.activity.load() : 0);
}

std::filesystem::path flight_folder(const std::filesystem::path& run_dir) {
  return run_dir / "flight_recorder";
}

std::filesystem::path flight_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank_{:05}", rank);
}

}  // namespace tessera
