#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

/// XXH3 with 64 bits (https://xxhash.com) of bytes that come piece by piece. It finds damage, not
/// forgery.
class Checksum {
 public:
  Checksum();

  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far: "xxh3-64:" and 16 hexadecimal digits.
  std::string text() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

/// XXH3 of `bytes`.
uint64_t hash_of(std::span<const std::byte> bytes);

/// As Checksum::text().
std::string checksum_of(std::span<const std::byte> bytes);

}  // namespace tessera
