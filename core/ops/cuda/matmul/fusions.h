#pragma once

#include <cstdint>
#include <span>

#include "core/ops/cuda/matmul/product_key.h"

/// Which epilogues run within cuBLASLt's products. An epilogue saves a pass over memory, but with
/// one cuBLASLt may choose a slower algorithm for the product.
namespace tessera::cuda {

/// A measurement of one epilogue on the GPUs of one compute capability.
struct Fusion {
  int capability = 0;  ///< 10 × major + minor
  Epilogue epilogue = Epilogue::none;
  bool fuse = true;           ///< otherwise a kernel of our own follows or precedes the product
  int64_t columns = 0;        ///< of the measured product's result; 0 if nobody has measured it
  const char* measured = "";  ///< GPU and times
};

/// Rows printed by tests/gpu/kernel_times replace these. A product takes the row with the most
/// columns that are not more than its own, or else the one with the fewest, because cuBLASLt
/// chooses other algorithms for other sizes. GPUs without a row fuse everything that cuBLASLt
/// supports.
inline constexpr Fusion kFusions[] = {
    // Unmeasured.
    {80, Epilogue::bias},
    {80, Epilogue::gelu},
    {80, Epilogue::bias_gelu},
    {80, Epilogue::gelu_backward},
    {80, Epilogue::row_sums},
    // Each with the rows of a micro-batch in configs/: 32768, or 16384 for GPT-2 1.5B.
    {90, Epilogue::bias, true, 2304, "NVIDIA H200: 178 us fused, 222 not"},
    {90, Epilogue::bias, true, 3072, "NVIDIA H200: 285 us fused, 378 not"},
    {90, Epilogue::bias, true, 4800, "NVIDIA H200: 351 us fused, 428 not"},
    {90, Epilogue::gelu, true, 3072, "NVIDIA H200: 294 us fused, 336 not"},
    {90, Epilogue::gelu, true, 4096, "NVIDIA H200: 520 us fused, 567 not"},
    {90, Epilogue::gelu, true, 6400, "NVIDIA H200: 560 us fused, 577 not"},
    {90, Epilogue::bias_gelu, true, 3072, "NVIDIA H200: 330 us fused, 355 not"},
    {90, Epilogue::bias_gelu, true, 4096, "NVIDIA H200: 514 us fused, 572 not"},
    {90, Epilogue::bias_gelu, true, 6400, "NVIDIA H200: 587 us fused, 607 not"},
    {90, Epilogue::gelu_backward, true, 3072, "NVIDIA H200: 324 us fused, 404 not"},
    {90, Epilogue::gelu_backward, false, 4096, "NVIDIA H200: 835 us fused, 634 not"},
    {90, Epilogue::gelu_backward, true, 6400, "NVIDIA H200: 563 us fused, 673 not"},
    {90, Epilogue::row_sums, false, 768, "NVIDIA H200: 888 us fused, 854 not"},
    {90, Epilogue::row_sums, false, 1024, "NVIDIA H200, steps of GPT-2 350M: 77 us fused, 45 not"},
    {90, Epilogue::row_sums, false, 1600, "NVIDIA H200: 1716 us fused, 1579 not"},
    // Unmeasured. The pass that an epilogue saves costs more where memory is slow for the products:
    // GDDR6 of 0.6 to 1 TB/s (RTX 30 and 40, A40, L40), GDDR7 of up to 1.8 (RTX 50). 103 is a 100
    // with more memory.
    {86, Epilogue::bias},
    {86, Epilogue::gelu},
    {86, Epilogue::bias_gelu},
    {86, Epilogue::gelu_backward},
    {86, Epilogue::row_sums},
    {89, Epilogue::bias},
    {89, Epilogue::gelu},
    {89, Epilogue::bias_gelu},
    {89, Epilogue::gelu_backward},
    {89, Epilogue::row_sums},
    {100, Epilogue::bias},
    {100, Epilogue::gelu},
    {100, Epilogue::bias_gelu},
    {100, Epilogue::gelu_backward},
    {100, Epilogue::row_sums},
    {103, Epilogue::bias},
    {103, Epilogue::gelu},
    {103, Epilogue::bias_gelu},
    {103, Epilogue::gelu_backward},
    {103, Epilogue::row_sums},
    {120, Epilogue::bias},
    {120, Epilogue::gelu},
    {120, Epilogue::bias_gelu},
    {120, Epilogue::gelu_backward},
    {120, Epilogue::row_sums},
};

/// The compute capability of the calling thread's GPU, 10 × major + minor.
int compute_capability();

/// Whether products on the calling thread's GPU whose results have `columns` columns have this
/// epilogue. If cuBLASLt does not support it for a product, that product runs without it in any
/// case.
bool fuses(Epilogue epilogue, int64_t columns);

/// Replaces kFusions for the calling thread, for tests and measurements. `fusions` must outlive the
/// thread's products.
void use_fusions(std::span<const Fusion> fusions);

/// The product that runs for `key`: without its epilogue if that is not fused.
ProductKey with_fusions(ProductKey key);

}  // namespace tessera::cuda
