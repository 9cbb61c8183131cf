#include "launch/data/sample.h"

#include <fmt/format.h>

namespace tessera {

std::string to_string(const TextOrigin& origin) {
  const auto [first, end] = origin.numbers;
  if (end - first == 1) return fmt::format("{} {} of {}", origin.unit, first, origin.path);
  return fmt::format("{}s {} to {} of {}", origin.unit, first, end - 1, origin.path);
}

}  // namespace tessera
