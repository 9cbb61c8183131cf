#pragma once

#include <string>
#include <vector>

#include "core/ops/cuda/matmul/product_key.h"
#include "core/tensor.h"
#include "launch/config/sections.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The products of this rank's step on a full batch, without padding, from a dry run.
std::vector<cuda::ProductKey> products_of_step(const StepOptions& options,
                                               const ParallelGroups& groups);

/// Rank 0 times cuBLASLt's algorithms for `products`, and all ranks use the fastest ones that it
/// found (cuda::time_algorithms, cuda::use_algorithms): tensor ranks compute the same bits only
/// with the same algorithms. If the ranks' GPUs are of different types, all use the first ones.
/// `scratch` is a tensor on the calling thread's GPU whose contents are lost. Collective; `world`
/// must support host memory. Returns a sentence for the start-up summary, the same on all ranks.
std::string agree_on_algorithms(const std::vector<cuda::ProductKey>& products,
                                const Tensor& scratch, Communicator& world);

}  // namespace tessera
