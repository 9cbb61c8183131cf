#pragma once

#include <chrono>
#include <cstdint>

#include "launch/support/text/redrawn_line.h"

namespace tessera {

/// A progress bar of an evaluation on a terminal, and its time.
class EvalProgress {
 public:
  /// Only a rank that `prints` shows it. `batches` is the number of this rank's micro-batches.
  EvalProgress(bool prints, int64_t batches);

  void add_batch();
  void clear() { line_.clear(); }
  /// Since the start.
  double seconds() const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  RedrawnLine line_;
  int64_t batches_, done_ = 0;
};

}  // namespace tessera
