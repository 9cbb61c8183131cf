#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <functional>

#include "tests/simt/graphs.h"

namespace simt {

struct Stream {
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0, done = 0;
  Capture capture;
};

/// Does all that was enqueued, on every stream.
void finish_all();

}  // namespace simt
