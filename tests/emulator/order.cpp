#include "tests/emulator/order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace emulator {

Order Order::from_environment() {
  Order order;
  const char* value = std::getenv("TESSERA_EMULATOR_ORDER");
  const std::string_view text = value == nullptr ? "forward" : value;
  unsigned seed = 0;
  if (text == "reverse") {
    order.kind_ = Kind::reverse;
  } else if (std::sscanf(text.data(), "shuffle:%u", &seed) == 1) {
    order.kind_ = Kind::shuffle;
    order.random_.seed(seed);
  } else if (text != "forward") {
    std::fprintf(stderr,
                 "TESSERA_EMULATOR_ORDER is \"%s\": choose forward, reverse or shuffle:SEED\n",
                 value);
    std::abort();
  }
  return order;
}

void Order::put(unsigned n, std::vector<unsigned>& out) {
  out.resize(n);
  std::iota(out.begin(), out.end(), 0u);
  if (kind_ == Kind::reverse) std::reverse(out.begin(), out.end());
  if (kind_ == Kind::shuffle) std::shuffle(out.begin(), out.end(), random_);
}

}  // namespace emulator
