#include "launch/support/end_signals.h"

#include <chrono>
#include <csignal>
#include <thread>

namespace tessera {
namespace {

volatile std::sig_atomic_t ask_to_end = 0;

}  // namespace

bool is_ignored(int signal) {
  struct sigaction now = {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

EndSignals::EndSignals() {
  ask_to_end = 0;
  interrupt_ = std::signal(SIGINT, [](int) { ask_to_end = 1; });
  terminate_ = std::signal(SIGTERM, [](int) { ask_to_end = 1; });
}

EndSignals::~EndSignals() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
}

bool EndSignals::wait(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> length(seconds);
  while (ask_to_end == 0 && std::chrono::steady_clock::now() - start < length) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return ask_to_end == 0;
}

}  // namespace tessera
