#include "launch/data/sampling/data_split.h"

#include <algorithm>

#include "core/error.h"

namespace tessera {
namespace {

int64_t part_of(int64_t size, double fraction) {
  return std::min(static_cast<int64_t>(static_cast<double>(size) * fraction), size);
}

}  // namespace

std::string_view to_string(DataPart part) {
  switch (part) {
    case DataPart::train:
      return "train";
    case DataPart::eval:
      return "eval";
    case DataPart::test:
      return "test";
  }
  return "?";
}

Range DataSplit::of(DataPart part) const {
  switch (part) {
    case DataPart::train:
      return train;
    case DataPart::eval:
      return eval;
    case DataPart::test:
      return test;
  }
  return {};
}

DataSplit split_data(int64_t size, double eval_fraction, double test_fraction) {
  require(size >= 0, "{} tokens cannot be split", size);
  require(0.0 <= eval_fraction && 0.0 <= test_fraction && eval_fraction + test_fraction < 1.0,
          "the fractions of data to hold out are {} and {}, but must be at least 0 and sum to less "
          "than 1",
          eval_fraction, test_fraction);
  const int64_t test = size - part_of(size, test_fraction);
  const int64_t eval = test - std::min(part_of(size, eval_fraction), test);
  return {{0, eval}, {eval, test}, {test, size}};
}

}  // namespace tessera
