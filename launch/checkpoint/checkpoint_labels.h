#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// Key in a checkpoint's extra data: the names of a classifier's labels, as in data.labels.
inline constexpr const char* kLabelsKey = "labels";

/// Key in a checkpoint's extra data: whether the model learned with mlm.hide: attention.
inline constexpr const char* kHidesTargetsKey = "hides_targets";

/// Key in a checkpoint's extra data: whether texts that are too long were truncated
/// (data.truncate).
inline constexpr const char* kTruncateKey = "truncate";

/// The label names in a checkpoint's extra data, in order; empty if it has none.
std::vector<std::string> checkpoint_labels(const Json& extra);

/// Whether `labels`, a run's data.labels, differ from a checkpoint's or are in another order, so
/// that its classifier's rows stand for other labels. False if either side has only numbers.
bool has_other_labels(const Json& extra, const std::optional<std::string>& labels);

}  // namespace tessera
