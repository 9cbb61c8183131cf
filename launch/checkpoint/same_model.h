#pragma once

#include <string>

#include "launch/support/text/json.h"

namespace tessera {

/// Throws unless both configs have the same keys and values at every depth; 1 and 1.0 are equal.
/// The message names the `checkpoint` and every key that differs, with both values, and ends in
/// `advice`.
void check_same_model(const Json& saved, const Json& run, const std::string& checkpoint,
                      const std::string& advice);

}  // namespace tessera
