#include "parallel/communicators/connect.h"

#include <exception>
#include <string>
#include <thread>

#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

enum State : int32_t { ready = 0, starting = 1, failed = 2 };

/// Polls until the state changes or the round ends.
State poll_for_a_round(const std::function<bool()>& poll, RankError& error) {
  constexpr auto kRound = std::chrono::milliseconds(20);
  constexpr auto kPause = std::chrono::milliseconds(1);
  const auto end = Clock::now() + kRound;
  try {
    while (!poll()) {
      if (Clock::now() >= end) return starting;
      std::this_thread::sleep_for(kPause);
    }
    return ready;
  } catch (const std::exception&) {
    error = handled_error();
    return failed;
  }
}

}  // namespace

void connect(Communicator& host, std::string_view what, std::chrono::milliseconds limit,
             const std::function<bool()>& poll) {
  const auto deadline = Clock::now() + limit;
  State mine = starting;
  for (;;) {
    RankError error;
    if (mine == starting) mine = poll_for_a_round(poll, error);
    if (mine == starting && Clock::now() >= deadline) {
      mine = failed;
      error.message = fmt::format("{} was not ready after {} seconds", what,
                                  std::chrono::duration<double>(limit).count());
    }
    int32_t worst = mine;
    host.all_reduce(Tensor(&worst, {1}, DType::i32, kCpu), ReduceOp::max);
    if (worst == ready) return;
    if (worst == failed) raise_on_all(host, error);
  }
}

}  // namespace tessera
