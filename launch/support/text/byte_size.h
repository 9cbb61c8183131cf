#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// The bytes of a size as "5GB", "500 MB", "2GiB" or "1000": decimal units (KB, MB, GB, TB), binary
/// ones (KiB, MiB, GiB, TiB), or none. Throws, with what is allowed, for any other text, for 0, and
/// beyond 63 bits.
int64_t parse_byte_size(std::string_view text);

}  // namespace tessera
