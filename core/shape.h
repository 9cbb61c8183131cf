#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace tessera {

/// Up to kMaxDims extents, outermost first. A value type without allocation.
class Shape {
 public:
  static constexpr int kMaxDims = 5;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);

  int rank() const { return rank_; }
  /// The extent of dim `i`; a negative `i` counts from the last dim.
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i < 0 ? rank_ + i : i)]; }
  void set(int i, int64_t extent) { dims_[static_cast<size_t>(i < 0 ? rank_ + i : i)] = extent; }
  void push_back(int64_t extent);
  int64_t numel() const;

  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};

/// "(2, 3, 64)"
std::string to_string(const Shape& shape);

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Shape> : tessera::ToStringFormatter<tessera::Shape> {};
