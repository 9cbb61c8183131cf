#pragma once

#include <string>
#include <string_view>

namespace tessera::test {

/// Compress `bytes` to a gzip member, and to a zstd frame with a checksum.
std::string gzipped(std::string_view bytes);
std::string zstd_compressed(std::string_view bytes);

}  // namespace tessera::test
