#include "launch/support/files/random_id.h"

#include <fmt/format.h>

#include <random>

namespace tessera {

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace tessera
