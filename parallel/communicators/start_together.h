#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Starts something on all ranks that gets ready in the background, and that may never get ready
/// where another rank fails: connections, above all. Calls `poll` on every rank, again and again,
/// until it has returned true on all. It throws if the start has failed, and then, or if some rank
/// is not ready after `limit`, all ranks throw SharedError. `what` is named in the latter case.
/// Collective over `host`, whose ranks tell each other how far they are.
void start_together(Communicator& host, std::string_view what, std::chrono::milliseconds limit,
                    const std::function<bool()>& poll);

}  // namespace tessera
