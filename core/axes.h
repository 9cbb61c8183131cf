#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tessera {

/// The axes along which ranks share a run, from the outermost to the innermost
/// (parallel/process_grid.h): stages of blocks, other samples, other rows of the same samples, and
/// parts of the same rows.
enum class Axis : uint8_t { pipeline, data, context, tensor };

inline constexpr std::array kAxes = {Axis::pipeline, Axis::data, Axis::context, Axis::tensor};

constexpr std::string_view to_string(Axis axis) {
  constexpr std::array<std::string_view, kAxes.size()> kNames = {"pipeline", "data", "context",
                                                                 "tensor"};
  return kNames[static_cast<size_t>(axis)];
}

/// A set of axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ |= bit(axis);
  }

  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

  /// Union, intersection and difference.
  constexpr AxisSet operator|(AxisSet other) const { return AxisSet(bits_ | other.bits_); }
  constexpr AxisSet operator&(AxisSet other) const { return AxisSet(bits_ & other.bits_); }
  constexpr AxisSet operator-(AxisSet other) const { return AxisSet(bits_ & ~other.bits_); }
  constexpr bool operator==(const AxisSet&) const = default;

 private:
  explicit constexpr AxisSet(int bits) : bits_(static_cast<uint8_t>(bits)) {}
  static constexpr int bit(Axis axis) { return 1 << static_cast<int>(axis); }

  uint8_t bits_ = 0;
};

/// The axes whose ranks hold the same weights and compute other rows.
inline constexpr AxisSet kReplicaAxes = {Axis::data, Axis::context};

}  // namespace tessera
