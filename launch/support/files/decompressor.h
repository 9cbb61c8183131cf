#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tessera {

/// Decompresses untrusted files in pieces. Memory depends only on the format: 32 KiB for gzip, up
/// to 128 MiB for zstd windows, of which only written pages are resident.
class Decompressor {
 public:
  virtual ~Decompressor() = default;

  /// Consumes bytes from the front of `input` and writes the decompressed bytes to `out`. Returns
  /// the number of bytes written; 0 means that more input is needed. Throws, with only the reason,
  /// if the input is damaged.
  virtual size_t decompress(std::string_view& input, std::span<char> out) = 0;

  /// Returns whether the file may end here.
  virtual bool may_end() const = 0;
};

/// The number of bytes at a file's start that identify its compression.
inline constexpr size_t kMagicBytes = 4;

/// Returns a decompressor for a file that starts with these bytes: gzip (RFC 1952: any number of
/// members, and trailing zeros) or zstd (RFC 8878: any number of frames). Returns null if the file
/// is not compressed.
std::unique_ptr<Decompressor> make_decompressor(std::string_view start);

}  // namespace tessera
