#pragma once

#include <map>
#include <string>

#include "core/ops/cuda/matmul/matmul.h"

namespace tessera {

/// The algorithms of products that a run has timed, by what they are valid for: a GPU, its number
/// of multiprocessors, and the versions of cuBLASLt and the driver.
using StoredAlgorithms = std::map<std::string, cuda::NamedAlgorithms>;

/// Reads the file of write_algorithms(). Throws, naming it and the reason, if it is damaged.
/// Returns nothing if there is none.
StoredAlgorithms read_algorithms(const std::string& path);

/// Replaces the file. Throws if it cannot be written.
void write_algorithms(const std::string& path, const StoredAlgorithms& algorithms);

}  // namespace tessera
