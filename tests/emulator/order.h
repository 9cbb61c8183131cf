#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace emulator {

/// TESSERA_EMULATOR_ORDER=forward|reverse|shuffle:SEED: in which order the blocks of a grid and the
/// threads of a block run. A kernel that is right gives the same in all.
class Order {
 public:
  /// Fails on any other text.
  static Order from_environment();

  /// Makes `out` 0 … n − 1 in this order. A shuffle gives another one each time.
  void put(unsigned n, std::vector<unsigned>& out);

  bool changes() const { return kind_ == Kind::shuffle; }

 private:
  enum class Kind : uint8_t { forward, reverse, shuffle };
  Kind kind_ = Kind::forward;
  std::mt19937 random_;
};

}  // namespace emulator
