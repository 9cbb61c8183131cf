#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/parameters/parameter.h"

namespace tessera {

/// How many parameters a part of a model has.
struct ParameterGroup {
  std::string_view name;
  int64_t global = 0;
  int64_t local = 0;  ///< on this rank, without padding
};

/// Counts the parameters of embeddings, attention, MLP, norms and heads, in this order. The norms
/// are those of all parts; a head that is tied to the embedding has its biases and what is before
/// it. Throws, naming it, on a parameter of no known part.
std::vector<ParameterGroup> count_by_group(const ParameterStore& store);

}  // namespace tessera
