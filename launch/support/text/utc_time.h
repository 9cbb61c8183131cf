#pragma once

#include <string>

namespace tessera {

/// The time now: "2026-11-25T17:05:00Z".
std::string now_in_utc();

}  // namespace tessera
