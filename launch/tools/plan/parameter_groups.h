#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/parameters/parameter.h"

namespace tessera {

/// The number of parameters of a part of a model.
struct ParameterGroup {
  std::string_view name;
  int64_t global = 0;
  int64_t local = 0;  ///< on this rank, without padding
};

/// Counts the parameters of embeddings, attention, MLP, norms and heads, in this order. Norms
/// include those of all parts; a head tied to the embedding has its biases and the layers before
/// it. Throws, naming it, for a parameter of no known part.
std::vector<ParameterGroup> count_by_group(const ParameterStore& store);

}  // namespace tessera
