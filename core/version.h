#pragma once

namespace tessera {

/// The version of this tree; the same as in CMakeLists.txt's project().
inline constexpr const char* kVersion = "0.1.0";

}  // namespace tessera
