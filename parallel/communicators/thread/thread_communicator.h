#pragma once

#include <functional>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Runs `body` on `size` threads of this process at once, each with a communicator of kind "thread"
/// over all of them, and returns when all have ended. Tests run any layout so, in one process and
/// under a sanitizer.
///
/// Sums run in the order of ranks and are the same bits in every run; bf16 accumulates in fp32 and
/// rounds once. Ranks that call different collectives, or one on different shapes, get an error
/// that says what each called; so does a rank that waits for one that has returned. A send waits
/// for its recv. Pending collectives may be waited for in any order.
///
/// When a rank throws, the other ranks' pending and next calls throw, and the first rank's
/// exception is rethrown here. OpenMP runs one thread a rank unless the body asks for more.
void run_thread_ranks(int size, const std::function<void(Communicator& world)>& body);

}  // namespace tessera
