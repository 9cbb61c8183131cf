#pragma once

#include <cstdint>
#include <string_view>

#include "core/range.h"

namespace tessera {

/// What the tokens, or the labelled texts, of a dataset are for.
enum class DataPart : uint8_t { train, eval, test };

/// "train", "eval" or "test"
std::string_view to_string(DataPart part);

/// One behind the other: those to train on, those to evaluate on meanwhile, and those for a test
/// at the end.
struct DataSplit {
  Range train;
  Range eval;
  Range test;

  Range of(DataPart part) const;
};

/// Holds out the end of `size` tokens or texts: at the very end `test_fraction` of them, before it
/// `eval_fraction`, both rounded down. Throws unless both are at least 0 and less than 1 together.
DataSplit split_data(int64_t size, double eval_fraction, double test_fraction = 0.0);

}  // namespace tessera
