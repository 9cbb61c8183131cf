#include "launch/train/start/stop_signal.h"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "launch/support/end_signals.h"

namespace tessera {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGUSR1};

std::atomic<bool> may_stop = false;  // a StopSignal exists
std::atomic<bool> stop_requested = false;

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

void end_process(int signal) {
  ::signal(signal, SIG_DFL);
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

void receive() {
  const sigset_t set = signal_set();
  bool interrupted = false;
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (!may_stop || (signal == SIGINT && interrupted)) end_process(signal);
    interrupted = signal == SIGINT || interrupted;
    stop_requested = true;
  }
}

}  // namespace

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

StopSignal::StopSignal() {
  receive_stop_signals();
  stop_requested = false;
  may_stop = true;
}

StopSignal::~StopSignal() { may_stop = false; }

StopReason StopSignal::requested(Communicator& world, StopReason own) const {
  auto reason = static_cast<int32_t>(stop_requested ? StopReason::signal : own);
  world.all_reduce(Tensor(&reason, {1}, DType::i32, kCpu), ReduceOp::max);
  return static_cast<StopReason>(reason);
}

}  // namespace tessera
