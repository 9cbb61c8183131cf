#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// A value that must be the same on every rank, with its name for messages.
struct NamedValue {
  std::string name;
  std::string value;
};

/// Throws SharedError on all ranks unless every rank passes the same names and values. The message
/// names up to eight values that differ, with their ranks, and ends with `advice`:
///
///     the ranks do not belong together: optimizer.lr is 6.0e-4 on ranks 0-2, but 0.1 on rank 3.
///     Start all ranks with the same configuration
///
/// Collective. If all ranks agree, it costs one all-reduce of two integers, whatever the values
/// are, so ranks that share nothing else can use it as their first exchange.
void require_same_on_ranks(Communicator& world, const std::vector<NamedValue>& values,
                           std::string_view advice);

}  // namespace tessera
