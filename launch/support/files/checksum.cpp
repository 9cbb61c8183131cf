#include "launch/support/files/checksum.h"

#include <xxhash.h>

#include <new>

#include "core/error.h"

namespace tessera {

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

void Checksum::Free::operator()(void* state) const {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}

std::string Checksum::text() const {
  const auto digest = XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
  return fmt::format("xxh3-64:{:016x}", digest);
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Hash128 hash128_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string checksum_of(std::span<const std::byte> bytes) {
  return fmt::format("xxh3-64:{:016x}", hash_of(bytes));
}

uint32_t crc32c(std::string_view bytes) {
  constexpr uint32_t kPolynomial = 0x82f63b78u;
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0u ? kPolynomial : 0u);
  }
  return ~crc;
}

}  // namespace tessera
