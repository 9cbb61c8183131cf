#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// 64-bit XXH3 (https://xxhash.com) of bytes that arrive in pieces. Detects damage, not forgery.
class Checksum {
 public:
  Checksum();

  void update(std::span<const std::byte> bytes);
  /// The checksum of all bytes so far: "xxh3-64:" and 16 hexadecimal digits.
  std::string text() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

/// Returns the 64-bit XXH3 of `bytes`.
uint64_t hash_of(std::span<const std::byte> bytes);

/// 128-bit XXH3.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Hash128&) const = default;
};

/// Returns the 128-bit XXH3 of `bytes`.
Hash128 hash128_of(std::span<const std::byte> bytes);

/// Returns the checksum of `bytes`, formatted as in Checksum::text().
std::string checksum_of(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli), for formats that require it; a bit at a time.
uint32_t crc32c(std::string_view bytes);

}  // namespace tessera
