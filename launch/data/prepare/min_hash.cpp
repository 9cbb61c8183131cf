#include "launch/data/prepare/min_hash.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "launch/support/files/checksum.h"

namespace tessera {
namespace {

constexpr size_t kMostValues = 128;
constexpr size_t kWordsOfShingle = 5;

bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

template <typename T>
uint64_t hash_of_values(std::span<const T> values) {
  return hash_of(std::as_bytes(values));
}

/// The probability that two signatures share a band.
double sharing(double similarity, size_t rows) {
  const size_t bands = kMostValues / rows;
  const double in_one = std::pow(similarity, static_cast<double>(rows));
  return 1.0 - std::pow(1.0 - in_one, static_cast<double>(bands));
}

/// Multiply-shift, which is strongly universal (Dietzfelbinger, 1996).
void lower(uint32_t shingle, std::span<const uint64_t> factors, std::span<const uint64_t> summands,
           std::span<uint32_t> signature) {
  for (size_t i = 0; i < signature.size(); ++i) {
    const auto value = static_cast<uint32_t>((factors[i] * shingle + summands[i]) >> 32);
    signature[i] = std::min(signature[i], value);
  }
}

}  // namespace

MinHash::MinHash(double threshold) : threshold_(threshold) {
  require(0.3 <= threshold && threshold <= 1.0,
          "the threshold of near duplicates is {}, but must be a number from 0.3 to 1", threshold);
  constexpr double kFound = 0.95;
  constexpr size_t kMostRows = 20;
  while (rows_ < kMostRows && sharing(threshold, rows_ + 1) >= kFound) ++rows_;
  bands_ = kMostValues / rows_;
  for (size_t i = 0; i < size(); ++i) {
    const auto words = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {0, 0});
    factors_.push_back(uint64_t{words[0]} << 32 | words[1] | 1);
    summands_.push_back(uint64_t{words[2]} << 32 | words[3]);
  }
}

void MinHash::add(std::string_view text, std::span<uint32_t> signature) const {
  std::array<uint64_t, kWordsOfShingle> words = {};  // hashes, the oldest is overwritten
  size_t count = 0;
  const auto add_shingle = [&](size_t number) {
    std::array<uint64_t, kWordsOfShingle> shingle = {};
    for (size_t i = 0; i < number; ++i) shingle[i] = words[(count - number + i) % kWordsOfShingle];
    const uint64_t hash = hash_of_values(std::span<const uint64_t>(shingle).first(number));
    lower(static_cast<uint32_t>(hash), factors_, summands_, signature);
  };
  for (size_t begin = 0; begin < text.size();) {
    if (is_space(text[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    words[count++ % kWordsOfShingle] =
        hash_of_values(std::span<const char>(text.data() + begin, end - begin));
    if (count >= kWordsOfShingle) add_shingle(kWordsOfShingle);
    begin = end;
  }
  if (0 < count && count < kWordsOfShingle) add_shingle(count);
}

}  // namespace tessera
