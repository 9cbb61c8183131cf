#include "launch/tools/evaluate/eval_progress.h"

#include <fmt/format.h>

#include <cstdio>

#include "launch/support/text/human_text.h"
#include "launch/support/text/terminal.h"

namespace tessera {

EvalProgress::EvalProgress(bool prints, int64_t batches)
    : line_(STDERR_FILENO, prints && stderr_is_watched()), batches_(batches) {}

double EvalProgress::seconds() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  return elapsed.count();
}

void EvalProgress::add_batch() {
  ++done_;
  if (!line_.is_due()) return;
  const double done = static_cast<double>(done_) / static_cast<double>(batches_);
  line_.draw(fmt::format("{} {:.0f}%  {} left", progress_bar(done), 100.0 * done,
                         human_duration(seconds() * (1.0 - done) / done)));
}

}  // namespace tessera
