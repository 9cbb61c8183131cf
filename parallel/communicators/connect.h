#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Waits for a background operation, such as connecting, that may never finish if another rank
/// fails. Calls `poll` repeatedly on every rank until it has returned true on all. All ranks throw
/// SharedError if `poll` throws on any rank, or if some rank is not ready after `limit`; `what`
/// names the operation in the latter case. Collective over `host`, on which the ranks exchange
/// their progress.
void connect(Communicator& host, std::string_view what, std::chrono::milliseconds limit,
             const std::function<bool()>& poll);

}  // namespace tessera
