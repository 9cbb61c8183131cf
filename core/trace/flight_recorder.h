#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/trace/place_stack.h"

namespace tessera {

/// The activity of a run, in steps and between them.
enum class RunPhase : uint32_t { starting, training, evaluating, saving };

/// How a rank has ended.
enum class RankEnd : uint32_t { running, finished, failed, hung };

/// Another rank of an exchange, and messages with it: in an entry, those of all exchanges so far.
struct FlightPeer {
  int32_t rank = 0;  ///< in the group
  uint32_t sent = 0, received = 0;
};

/// A collective in a ring. Times are nanoseconds since 1970; 0: not yet.
struct FlightEntry {
  std::atomic<uint64_t> number{0};  ///< its number in the ring + 1; 0 while it is written
  uint64_t call = 0;                ///< its number in its group
  int32_t group = 0;                ///< index in FlightRing::groups
  int32_t num_peers = 0;            ///< of an exchange, of which `peers` has the first ones
  int64_t step = 0;                 ///< counted from 1
  int64_t micro_batch = 0;          ///< counted from 1; 0 outside micro-batches
  int64_t bytes = 0;
  int64_t started = 0;
  std::atomic<int64_t> waited{0};  ///< when the rank began to wait for it
  std::atomic<int64_t> ended{0};
  std::array<char, 16> kind{};     ///< "all_reduce"
  std::array<char, 16> purpose{};  ///< "gradients"
  std::array<char, 96> place{};    ///< "step/blocks.3/attention"
  static constexpr size_t kPeers = 16;
  std::array<FlightPeer, kPeers> peers{};
};

/// A group of ranks that this rank is part of.
struct FlightGroup {
  std::array<char, 24> name{};                        ///< "world", "data", "tensor"
  int32_t first = 0, stride = 0, size = 0, rank = 0;  ///< see GroupLabel
  std::atomic<uint64_t> started{0};                   ///< calls so far
};

/// The memory of a flight recorder, as in its file. Other processes read it while it changes.
struct FlightRing {
  static constexpr uint64_t kMagic = 0x74'68'67'69'6c'66'72'74;  ///< "trflight" in the file
  static constexpr uint32_t kVersion = 2;
  static constexpr size_t kEntries = 128;
  static constexpr size_t kGroups = 16;
  /// Value of `waiting` while the rank waits for its GPU.
  static constexpr uint64_t kGpu = UINT64_MAX;

  std::atomic<uint64_t> magic{0};  ///< written last
  uint32_t version = 0;
  uint32_t bytes = 0;
  int32_t rank = 0, ranks = 0, process = 0;
  std::atomic<uint32_t> num_groups{0};
  uint64_t process_start = 0;  ///< see ProcessStat; 0 if unknown
  uint64_t pid_namespace = 0;
  int64_t started = 0;
  std::array<char, 72> host{};

  std::atomic<int64_t> heartbeat{0};  ///< written every second by a thread beside the training
  std::atomic<uint64_t> activity{0};  ///< of the process: grows while it computes or uses files
  std::atomic<RunPhase> phase{RunPhase::starting};
  std::atomic<RankEnd> end{RankEnd::running};
  std::atomic<int64_t> step{0};  ///< counted from 1; 0 before the first
  std::atomic<int64_t> micro_batch{0}, micro_batches{0};
  std::atomic<int64_t> steps_here{0};  ///< completed since the rank started
  std::atomic<int64_t> step_began{0};
  std::atomic<int64_t> step_length{0};  ///< of the last completed step, in nanoseconds

  std::atomic<uint64_t> entries{0};  ///< written so far
  std::atomic<uint64_t> waiting{0};  ///< number in the ring + 1 of what the rank waits for; 0: none
  std::atomic<int64_t> waiting_since{0};
  std::array<char, 1000> last_words{};  ///< why the rank ended

  PlaceStack places;
  std::array<FlightGroup, kGroups> groups;
  std::array<FlightEntry, kEntries> ring;
};

/// Records a rank's last collectives and its place in the model in a file that is mapped into
/// memory, so that others can read it while the rank is stopped or after it died: the system keeps
/// what was written, whatever happens to the process. PyTorch calls this a flight recorder.
///
/// One thread records, the one with a Scope. Recording a collective takes less than a microsecond
/// and never waits.
class FlightRecorder {
 public:
  /// Creates the file, or replaces it. Throws if that fails, also for lack of space.
  FlightRecorder(const std::filesystem::path& file, int rank, int ranks, std::string_view host);
  /// Records that the rank has ended, unless end() has: failed if an exception propagates.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// Makes the file again if it was removed; what was recorded stays. Throws if that fails; the
  /// recorder then records into memory alone. Only for the thread that records.
  void restore_file();

  /// The calling thread's recorder; null if it has none.
  static FlightRecorder* current() { return current_; }

  /// Sets the calling thread's recorder (null: none) for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(FlightRecorder* recorder)
        : outer_(current_), places_(recorder == nullptr ? nullptr : &recorder->ring_->places) {
      current_ = recorder;
    }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FlightRecorder* outer_;
    PlaceStack::Scope places_;
  };

  /// Tells recorders of one process apart; never 0.
  uint64_t id() const { return id_; }
  /// For the thread that writes heartbeats, and for tests.
  FlightRing& ring() { return *ring_; }

  /// Adds a group and returns its index. Groups beyond the last place share it.
  int add_group(std::string_view name, int first, int stride, int size, int rank);

  /// A collective starts; returns its number. `peers` are those of an exchange, each once, with the
  /// messages of this call. Exchanges do not count as calls of the group.
  uint64_t start(int group, std::string_view kind, std::string_view purpose, int64_t bytes,
                 std::span<const FlightPeer> peers = {});
  /// The rank waits for it.
  void wait(uint64_t number);
  /// Its result is in place, or it has failed.
  void end(uint64_t number);

  /// Whether the thread is within a call that is recorded. Calls within it are not: a communicator
  /// built on another one records what its caller asked for.
  bool in_call() const { return in_call_; }
  /// Sets in_call() for its lifetime.
  class Call {
   public:
    explicit Call(FlightRecorder& recorder) : recorder_(recorder), outer_(recorder.in_call_) {
      recorder_.in_call_ = true;
    }
    ~Call() { recorder_.in_call_ = outer_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    FlightRecorder& recorder_;
    bool outer_;
  };

  /// The calling thread waits for its GPU during the lifetime. Does nothing within a call.
  class GpuWait {
   public:
    GpuWait();
    ~GpuWait();
    GpuWait(const GpuWait&) = delete;
    GpuWait& operator=(const GpuWait&) = delete;

   private:
    FlightRecorder* recorder_;
  };

  /// A step begins, counted from 1; a micro-batch, counted from 1; the step has ended.
  void begin_step(int64_t step);
  void begin_micro_batch(int64_t index, int64_t count);
  void end_micro_batches() { ring_->micro_batch.store(0, std::memory_order_relaxed); }
  void end_step();
  void set_phase(RunPhase phase) { ring_->phase.store(phase, std::memory_order_relaxed); }

  /// Nanoseconds that the rank has waited in collectives so far.
  int64_t waited() const { return waited_; }

  /// Records how the rank ends and its last words. The first call counts. Any thread may call it.
  void end(RankEnd how, std::string_view last_words);

 private:
  void remember(int file);
  FlightEntry& entry(uint64_t number) { return ring_->ring[number % FlightRing::kEntries]; }

  inline static constinit thread_local FlightRecorder* current_ = nullptr;

  std::filesystem::path file_;
  uint64_t device_ = 0, inode_ = 0;  // of the file
  FlightRing* ring_ = nullptr;
  uint64_t id_;
  bool in_call_ = false;
  int64_t waited_ = 0;
  /// Messages of all exchanges so far, by group and the other rank.
  std::map<std::pair<int, int32_t>, FlightPeer> messages_;
  int exceptions_;
};

/// Sets the phase of the calling thread's recorder, if any, for its lifetime; then it is
/// `training`.
class PhaseScope {
 public:
  explicit PhaseScope(RunPhase phase) : recorder_(FlightRecorder::current()) {
    if (recorder_ != nullptr) recorder_->set_phase(phase);
  }
  ~PhaseScope() {
    if (recorder_ != nullptr) recorder_->set_phase(RunPhase::training);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  FlightRecorder* recorder_;
};

/// Nanoseconds since 1970.
int64_t now_in_nanoseconds();

/// The PID namespace of this process; 0 if unknown.
uint64_t own_pid_namespace();

}  // namespace tessera
