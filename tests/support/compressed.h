#pragma once

#include <string>
#include <string_view>

namespace tessera::test {

/// The bytes of a gzip member, and of a zstd frame with a checksum, that hold `bytes`.
std::string gzipped(std::string_view bytes);
std::string zstd_compressed(std::string_view bytes);

}  // namespace tessera::test
