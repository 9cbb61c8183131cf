#pragma once

#include <cublasLt.h>

#include <optional>

#include "core/ops/cuda/matmul/product_key.h"

namespace tessera::cuda {

/// The calling thread's handle of its GPU, which ends with the thread.
cublasLtHandle_t cublas_handle();

/// Whether cuBLASLt has no such product, or not with this algorithm; its releases differ in which
/// of the two they report.
bool is_not_taken(cublasStatus_t status);

/// The algorithm for a product: that of use_algorithms(), otherwise the first of cuBLASLt's
/// heuristics; none if they have none. Valid until the thread's next call.
const std::optional<cublasLtMatmulAlgo_t>& algorithm_for(const ProductKey& key);

}  // namespace tessera::cuda
