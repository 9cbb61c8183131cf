#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Which activations are not kept for the backward pass but computed again in it: the GELUs', which
/// are a quarter of a block's and cost little, or all of a block but its input, for another forward
/// pass. Results are the same bits.
enum class Recompute : uint8_t { none, gelu, block };

constexpr std::string_view to_string(Recompute recompute) {
  constexpr std::string_view kNames[] = {"none", "gelu", "block"};
  return kNames[static_cast<size_t>(recompute)];
}

}  // namespace tessera
