#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Starts a collective on `bytes` by `start`. Where the calling thread has a timeline, that is told
/// when it was started, when the thread waited for it, and until when it was under way: as
/// "all_reduce_async", "wait for all_reduce of gradients" and "all_reduce of gradients", by what
/// the calling thread's TrafficScope says. `name` is the collective's.
std::unique_ptr<PendingCollective> start_traced(
    std::string_view name, int64_t bytes,
    const std::function<std::unique_ptr<PendingCollective>()>& start);

}  // namespace tessera
