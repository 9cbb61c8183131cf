#include <device_math.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace emulator {

Inexact Inexact::from_environment() {
  const char* value = std::getenv("TESSERA_EMULATOR_MATH");
  const std::string_view text = value == nullptr ? "exact" : value;
  Inexact result;
  if (std::sscanf(text.data(), "inexact:%u", &result.seed) == 1) {
    result.active = true;
  } else if (text != "exact") {
    std::fprintf(stderr, "TESSERA_EMULATOR_MATH is \"%s\": choose exact or inexact:SEED\n", value);
    std::abort();
  }
  return result;
}

}  // namespace emulator
