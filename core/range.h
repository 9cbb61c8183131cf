#pragma once

#include <cstdint>

namespace tessera {

/// Half-open [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t size() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool contains(int64_t i) const { return begin <= i && i < end; }
  constexpr bool operator==(const Range&) const = default;
};

constexpr Range intersect(Range a, Range b) {
  const int64_t begin = a.begin > b.begin ? a.begin : b.begin;
  const int64_t end = a.end < b.end ? a.end : b.end;
  return {begin, end < begin ? begin : end};
}

}  // namespace tessera
