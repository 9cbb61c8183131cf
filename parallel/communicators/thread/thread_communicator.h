#pragma once

#include <functional>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Runs `body` on `size` threads of this process, each with a communicator of kind "thread" over
/// all of them, and returns when all have ended. Tests use it to run any layout in one process and
/// under a sanitizer.
///
/// Sums run in the order of reduce.h and have the same bits in every run; bf16 accumulates in fp32
/// and rounds once. Ranks that call different collectives, or different shapes, get an error that
/// says what each rank called. A rank that waits for a rank that has returned gets an error too.
/// Pending collectives may be waited for in any order.
///
/// When a rank throws, the other ranks' pending and next calls throw, and the first rank's
/// exception is rethrown here. OpenMP uses one thread per rank unless the body requests more.
void run_thread_ranks(int size, const std::function<void(Communicator& world)>& body);

}  // namespace tessera
