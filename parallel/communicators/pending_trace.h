#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Starts a collective on `bytes` bytes by calling `start`. If the calling thread has a timeline,
/// it records the start, the thread's wait and the collective's duration, as "all_reduce_async",
/// "wait for all_reduce of gradients" and "all_reduce of gradients". The purpose is the calling
/// thread's TrafficScope; `name` is the collective's name.
std::unique_ptr<PendingCollective> start_traced(
    std::string_view name, int64_t bytes,
    const std::function<std::unique_ptr<PendingCollective>()>& start);

}  // namespace tessera
