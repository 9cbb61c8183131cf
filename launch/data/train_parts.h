#pragma once

#include <cstdint>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// The properties of a training dataset that determine the order of samples.
struct TrainPart {
  int64_t samples = 0;
  double share = 1.0;  ///< fraction of the run's samples: weight / sum of all weights
};

/// Key in a checkpoint's extra data: the datasets that the run trained on, in order. Paths are not
/// stored, because data may move.
inline constexpr const char* kTrainPartsKey = "train_parts";

/// Returns [{"samples": samples, "share": share}, …].
Json train_parts_json(const std::vector<TrainPart>& parts);

/// Returns whether a checkpoint's extra data has the same parts in the same order, up to rounding
/// of their shares. Also true if it has none, as after an import.
bool has_same_parts(const Json& extra, const std::vector<TrainPart>& parts);

}  // namespace tessera
