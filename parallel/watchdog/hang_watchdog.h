#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/threads/background_thread.h"
#include "core/trace/flight_recorder.h"
#include "parallel/watchdog/hang_report.h"

namespace tessera {

/// A rank's watchdog, as NCCL's in PyTorch: a thread that writes the rank's heartbeat and, if the
/// rank waits for others while no rank of the run makes progress, explains the hang once for all
/// ranks. The thread calls no communicator, so that it works whatever the rank is stuck in; it
/// reads the flight recorders in a folder that the ranks share.
class HangWatchdog {
 public:
  struct Options {
    std::chrono::milliseconds timeout{0};  ///< 0: only heartbeats
    bool aborts = true;                    ///< end the process after the report
    std::filesystem::path folder;          ///< flight_folder() of the run
    int rank = 0, ranks = 1;
    std::string host;
    /// Prints a report or a note, which ends with a newline. The default is stderr.
    std::function<void(const std::string&)> print = {};
    /// Ends the process. The default is _exit(75), ExitCode::hang.
    std::function<void()> end_process = {};
  };

  /// `recorder` must outlive this.
  HangWatchdog(FlightRecorder& recorder, Options options);
  ~HangWatchdog();
  HangWatchdog(const HangWatchdog&) = delete;
  HangWatchdog& operator=(const HangWatchdog&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void beat(Clock::duration passed);
  void check(Clock::duration passed);
  /// The sum over all ranks of numbers that grow with their progress.
  uint64_t progress_of_all() const;
  void handle_hang(uint64_t progress);
  void explain(uint64_t progress, const std::vector<RankView>& views);
  /// Writes what this host knows about its processes for the rank that reports, on another host.
  void note_processes(uint64_t progress, const std::vector<RankView>& views) const;
  /// Reads the other hosts' notes, as soon as they are written.
  std::string read_notes(uint64_t progress, const std::vector<RankView>& views) const;
  void write_report(const std::string& text) const;
  /// Creates a file that exists once for a hang. Returns whether this rank was the first.
  bool claim(const std::filesystem::path& file) const;

  FlightRecorder& recorder_;
  Options options_;
  Clock::duration tick_;
  uint64_t waiting_ = 0;  // FlightRing::waiting at the last look
  std::optional<uint64_t> progress_;
  std::optional<uint64_t> reported_;  // progress when the hang was reported
  bool is_reporter_ = false;          // of that hang
  Clock::duration quiet_{0};          // while this rank waits and nobody makes progress
  int64_t cpu_time_ = 0, own_cpu_time_ = 0;
  uint64_t file_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  BackgroundThread thread_;  // destroyed first
};

}  // namespace tessera
