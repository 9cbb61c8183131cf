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

/// In run.dir.
inline constexpr const char* kAlgorithmFile = "product_algorithms.json";

/// Where rank 0 keeps timed algorithms (launch/train/stored_algorithms.h).
struct AlgorithmFile {
  std::string path = {};  ///< empty: nowhere
  bool writes = true;     ///< false: an existing file is only read
};

/// Rank 0 takes the algorithms for `products` from `file`, as far as it has them for this GPU and
/// these libraries, and times cuBLASLt's for the others (cuda::time_algorithms). All ranks use them
/// (cuda::use_algorithms): tensor ranks compute the same bits only with the same algorithms. If the
/// ranks' GPUs or libraries differ, all use the first ones. A damaged file is replaced. `scratch`
/// is a tensor on the calling thread's GPU whose contents are lost. Collective; `world` must
/// support host memory. Returns a sentence for the start-up summary, the same on all ranks.
std::string agree_on_algorithms(const std::vector<cuda::ProductKey>& products,
                                const Tensor& scratch, Communicator& world,
                                const AlgorithmFile& file = {});

}  // namespace tessera
