#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Activations to recompute in the backward pass instead of storing them. `activation`: the outputs
/// of the MLPs' activation functions, a quarter of a block's activations, at little cost. `block`:
/// everything but a block's input, at the cost of a second forward pass. Results have the same
/// bits, except with `activation` where a product applies a stored GELU (matmul.h).
enum class Recompute : uint8_t { none, activation, block };

constexpr std::string_view to_string(Recompute recompute) {
  constexpr std::string_view kNames[] = {"none", "activation", "block"};
  return kNames[static_cast<size_t>(recompute)];
}

}  // namespace tessera
