#pragma once

#include <cstdint>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// One of the datasets that a run trains on, as far as the order of samples depends on it.
struct TrainPart {
  int64_t samples = 0;
  double share = 1.0;  ///< of the run's samples: its weight / the sum of all weights
};

/// In a checkpoint's extra data: the datasets that the run trained on, in order. Not their paths:
/// data may move.
inline constexpr const char* kTrainPartsKey = "train_parts";

/// [{"samples": samples, "share": share}, …].
Json train_parts_json(const std::vector<TrainPart>& parts);

/// Whether a checkpoint's extra data has the same parts in the same order, but for rounding of
/// their shares. Also if it has none: earlier versions knew no blends.
bool has_same_parts(const Json& extra, const std::vector<TrainPart>& parts);

}  // namespace tessera
