#pragma once

#include <string>

namespace tessera {

/// 16 random hexadecimal digits: a part of a name that no other process chooses.
std::string random_id();

}  // namespace tessera
