#include "launch/train/start/stop_signal.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "launch/support/end_signals.h"
#include "launch/support/text/print.h"
#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {
namespace {

constexpr int64_t kNoStep = -1;

enum class Phase : uint8_t { starting, running, ending };

std::atomic<Phase> phase_of_run = Phase::starting;
std::atomic<bool> stop_requested = false, answers_signals = false;
std::atomic<int64_t> shown_step = 0, shown_saved_step = kNoStep;

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

void end_process(int signal) {
  ::signal(signal, SIG_DFL);
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

std::string hurried_text(int64_t step, std::optional<int64_t> saved) {
  return stopping_text(step, saved) +
         ". mpirun may kill the ranks within a second: `tessera run` lets them save";
}

/// A terminal shows ^C and perhaps a progress bar on its last line.
void answer(std::string (*text)(int64_t, std::optional<int64_t>)) {
  if (!answers_signals || phase_of_run != Phase::running) return;
  const int64_t saved = shown_saved_step;
  print_error("{}{}\n", ::isatty(STDERR_FILENO) == 1 ? "\n" : "",
              text(shown_step, saved == kNoStep ? std::nullopt : std::optional(saved)));
}

void receive() {
  const sigset_t set = signal_set();
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> interrupted;
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    const bool again = signal == SIGINT && interrupted &&
                       Clock::now() - *interrupted > std::chrono::duration<double>(kOneRequest);
    if (again) answer(ending_text);
    const bool is_over = phase_of_run == Phase::ending && signal == SIGTERM;
    if (phase_of_run == Phase::starting || is_over || again) end_process(signal);
    if (!stop_requested)
      answer(signal == SIGTERM && launched_by_mpi() ? hurried_text : stopping_text);
    if (signal == SIGINT && !interrupted) interrupted = Clock::now();
    stop_requested = true;
  }
}

}  // namespace

std::string lost_steps(int64_t step, std::optional<int64_t> saved) {
  const int64_t lost = step - saved.value_or(0);
  const std::string steps = fmt::format("{} step{}", lost, lost == 1 ? "" : "s");
  return saved ? fmt::format("{} since the checkpoint of step {}", steps, *saved)
               : fmt::format("all {}: there is no checkpoint yet", steps);
}

std::string stopping_text(int64_t step, std::optional<int64_t> saved) {
  return fmt::format(
      "stopping after this step, {}, saving... A second Ctrl-C ends at once and loses {}", step + 1,
      lost_steps(step, saved));
}

std::string ending_text(int64_t step, std::optional<int64_t> saved) {
  return "ending now, without saving. Lost: " + lost_steps(step, saved);
}

void receive_stop_signals() {
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  static std::once_flag started;
  std::call_once(started, [] {
    try {
      std::thread(receive).detach();  // it ends with the process
    } catch (const std::system_error& error) {
      fail("the system cannot start the thread that receives signals: {}", error.what());
    }
  });
}

StopSignal::StopSignal(bool answers) {
  receive_stop_signals();
  stop_requested = false;
  answers_signals = answers && std::getenv(kLauncherVariable) == nullptr;
  phase_of_run = Phase::running;
}

StopSignal::~StopSignal() { phase_of_run = Phase::ending; }

void StopSignal::set_steps(int64_t step, std::optional<int64_t> saved) {
  shown_step = step;
  shown_saved_step = saved.value_or(kNoStep);
}

StopReason StopSignal::requested(Communicator& world, StopReason own) const {
  auto reason = static_cast<int32_t>(stop_requested ? StopReason::signal : own);
  world.all_reduce(Tensor(&reason, {1}, DType::i32, kCpu), ReduceOp::max);
  return static_cast<StopReason>(reason);
}

}  // namespace tessera
