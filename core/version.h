#pragma once

namespace tessera {

/// The version of this tree; the same as in CMakeLists.txt's project() and launch/python.
inline constexpr const char* kVersion = "0.1.0";

/// The processors that this program is built for: "native", those like the one that built it, or a
/// variant of a package (cmake/variants.cmake), such as "x86-64-v3". Variants may round
/// differently.
const char* program_variant();

}  // namespace tessera
