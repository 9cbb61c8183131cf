#include "core/divisors.h"

#include "core/error.h"

namespace tessera {

std::string divisors(int64_t number) {
  constexpr int kMostShown = 12;
  std::string text = "(1";
  int shown = 1;
  for (int64_t d = 2; d <= number; ++d) {
    if (number % d != 0) continue;
    if (shown++ == kMostShown) return text + ", ...)";
    text += fmt::format(", {}", d);
  }
  return text + ")";
}

std::string nearest_multiples(int64_t number, int64_t step) {
  const int64_t below = number / step * step;
  const int64_t above = below + step;
  return below == 0 ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
}

}  // namespace tessera
