#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// In a checkpoint's extra data: the names of a classifier's labels, as data.labels has them.
inline constexpr const char* kLabelsKey = "labels";

/// The names of the labels that a checkpoint's extra data has, in order; none if it has no names.
std::vector<std::string> checkpoint_labels(const Json& extra);

/// Whether `labels`, a run's data.labels, are others than a checkpoint's, or in another order: the
/// rows of its classifier are of other labels then. Not where either has only numbers.
bool has_other_labels(const Json& extra, const std::optional<std::string>& labels);

}  // namespace tessera
