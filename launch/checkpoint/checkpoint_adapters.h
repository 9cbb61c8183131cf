#pragma once

#include <set>
#include <string>

#include "core/parameters/parameter.h"
#include "launch/support/text/json.h"

namespace tessera {

/// Key in the extra data of a checkpoint with low-rank adapters: the names of the other parameters
/// that differ from those of the adapters' base model, because they were trained, too.
inline constexpr const char* kTrainedKey = "trained_beside_adapters";

/// These names; none if the extra data has no such key.
std::set<std::string> trained_beside_adapters(const Json& extra);

/// These names and those of the parameters that a run, which started with such extra data, trains
/// beside adapters.
std::set<std::string> trained_beside_adapters(const Json& extra, const ParameterStore& store);

}  // namespace tessera
