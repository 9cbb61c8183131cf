#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// Parses a size such as "5GB", "500 MB", "2GiB" or "1000" into bytes. Accepts decimal units (KB,
/// MB, GB, TB), binary units (KiB, MiB, GiB, TiB), or none. For anything else, 0, or more than 63
/// bits, throws a message that lists what is allowed.
int64_t parse_byte_size(std::string_view text);

}  // namespace tessera
