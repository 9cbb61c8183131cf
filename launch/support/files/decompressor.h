#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tessera {

/// Turns the bytes of a compressed file, which may be hostile, back into what was compressed. Its
/// memory depends on the format alone: 32 KiB for gzip, up to 128 MiB for zstd's windows, of which
/// only what is written takes room.
class Decompressor {
 public:
  virtual ~Decompressor() = default;

  /// Takes bytes from the front of `input`, which goes on in the next call, and writes what they
  /// stand for to `out`. Returns how many bytes that were; 0: more input is needed. Throws, with
  /// the reason alone, if the input is damaged.
  virtual size_t decompress(std::string_view& input, std::span<char> out) = 0;

  /// Whether the file may end after what was taken.
  virtual bool may_end() const = 0;
};

/// So many bytes at a file's start tell how it is compressed.
inline constexpr size_t kMagicBytes = 4;

/// For a file that starts with these bytes: gzip (RFC 1952: any number of members, and zeros behind
/// the last) or zstd (RFC 8878: any number of frames). Null for any other file, which is not
/// compressed.
std::unique_ptr<Decompressor> make_decompressor(std::string_view start);

}  // namespace tessera
