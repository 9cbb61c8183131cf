#pragma once

#include <cstdint>
#include <string_view>

#include "core/range.h"

namespace tessera {

/// Use of a dataset's tokens or labeled texts.
enum class DataPart : uint8_t { train, eval, test };

/// "train", "eval" or "test"
std::string_view to_string(DataPart part);

/// Consecutive ranges: training data, evaluation data, and test data for the end.
struct DataSplit {
  Range train;
  Range eval;
  Range test;

  Range of(DataPart part) const;
};

/// Holds out the end of `size` tokens or texts: `test_fraction` of them at the very end, and
/// `eval_fraction` before that, both rounded down. Throws unless both are at least 0 and sum to
/// less than 1.
DataSplit split_data(int64_t size, double eval_fraction, double test_fraction = 0.0);

}  // namespace tessera
