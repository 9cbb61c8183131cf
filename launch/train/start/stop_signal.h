#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Why a run saves, or ends before its last step. The largest of all ranks' counts.
enum class StopReason : int32_t { none, save, out_of_time, signal };

/// Signals that ask a run to save and end, besides a SIGHUP that is not ignored.
inline constexpr std::array<int, 3> kStopSignals = {SIGTERM, SIGINT, SIGUSR1};

/// SIGINTs within so many seconds are one request: programs that forward it, such as timeout(1),
/// send it twice.
inline constexpr double kOneRequest = 0.5;

/// Set for the ranks by `tessera run` and `tessera supervise`, which answer signals themselves.
inline constexpr const char* kLauncherVariable = "TESSERA_LAUNCHER";

/// "the 12 steps since the checkpoint of step 400": the steps that an end after `step` loses.
std::string lost_steps(int64_t step, std::optional<int64_t> saved);

/// Answers to a first and a second request to stop.
std::string stopping_text(int64_t step, std::optional<int64_t> saved);
std::string ending_text(int64_t step, std::optional<int64_t> saved);

/// Blocks SIGTERM, SIGINT, SIGUSR1 and, unless it is ignored, SIGHUP in this thread and in the
/// threads that it starts from now on, and starts a thread that receives them: no handler may run
/// in a thread that computes. oneDNN's AVX2 kernels keep other addresses in the stack pointer, and
/// a handler's frame would overwrite the heap. Call it before OpenMP and MPI start their threads.
///
/// Before the first StopSignal, the signals end the process as usual.
void receive_stop_signals();

/// During its lifetime, these signals, some of which schedulers send before they preempt a job,
/// only request a stop. A later SIGINT ends the process as usual. After its lifetime the process
/// ends by itself, so a first signal other than SIGTERM is ignored. At most one per process.
class StopSignal {
 public:
  /// The thread that receives signals `answers` them at once on standard error.
  explicit StopSignal(bool answers);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// For the answers: the last step, and that of the newest checkpoint.
  void set_steps(int64_t step, std::optional<int64_t> saved);

  /// Whether a rank was asked to stop by a signal or has a reason of its `own`; the answer is the
  /// same on every rank. Collective.
  StopReason requested(Communicator& world, StopReason own = StopReason::none) const;
};

}  // namespace tessera
