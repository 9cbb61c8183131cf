#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace emulator {

/// The order in which blocks of a grid and threads of a block run, from
/// TESSERA_EMULATOR_ORDER=forward|reverse|shuffle:SEED. A correct kernel gives the same result in
/// every order.
class Order {
 public:
  /// Fails for any other value.
  static Order from_environment();

  /// Sets `out` to 0 … n − 1 in this order. Each shuffle is different.
  void put(unsigned n, std::vector<unsigned>& out);

  bool changes() const { return kind_ == Kind::shuffle; }

 private:
  enum class Kind : uint8_t { forward, reverse, shuffle };
  Kind kind_ = Kind::forward;
  std::mt19937 random_;
};

}  // namespace emulator
