#include "core/error.h"

#include <fmt/format.h>

namespace tessera {

void throw_error(fmt::string_view message, fmt::format_args values) {
  throw Error(fmt::vformat(message, values));
}

}  // namespace tessera
