#pragma once

#include <string>

namespace tessera {

/// Returns 16 random hexadecimal digits, for names that no other process chooses.
std::string random_id();

}  // namespace tessera
