#include "launch/train/start/stop_signal.h"

#include <array>
#include <csignal>

namespace tessera {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGUSR1};

volatile std::sig_atomic_t stop_requested = 0;

extern "C" void request_stop(int signal) {
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);  // a second SIGINT ends the process
  stop_requested = 1;
}

}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
  for (const int signal : kSignals) std::signal(signal, request_stop);
}

StopSignal::~StopSignal() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

StopReason StopSignal::requested(Communicator& world, StopReason own) const {
  auto reason = static_cast<int32_t>(stop_requested != 0 ? StopReason::signal : own);
  world.all_reduce(Tensor(&reason, {1}, DType::i32, kCpu), ReduceOp::max);
  return static_cast<StopReason>(reason);
}

}  // namespace tessera
