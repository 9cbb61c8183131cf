#include "launch/support/text/byte_size.h"

#include <charconv>
#include <limits>
#include <utility>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {

int64_t parse_byte_size(std::string_view text) {
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"", 1},
      {"B", 1},
      {"KB", 1'000},
      {"MB", 1'000'000},
      {"GB", 1'000'000'000},
      {"TB", 1'000'000'000'000},
      {"KiB", int64_t{1} << 10},
      {"MiB", int64_t{1} << 20},
      {"GiB", int64_t{1} << 30},
      {"TiB", int64_t{1} << 40},
  };
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<size_t>(stop - text.data()));
  if (unit.rfind(' ', 0) == 0) unit.remove_prefix(1);
  for (const auto& [name, bytes] : kUnits) {
    if (unit != name || error != std::errc() || number <= 0) continue;
    if (number > std::numeric_limits<int64_t>::max() / bytes) break;
    return number * bytes;
  }
  fail(
      "{} is not a size: write a whole number of KB, MB, GB or TB (or KiB, MiB, GiB, TiB), such as "
      "5GB",
      quote(text));
}

}  // namespace tessera
