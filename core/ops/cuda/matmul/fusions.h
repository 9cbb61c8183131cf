#pragma once

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
  const char* measured = "";  ///< GPU and times; "" if nobody has measured it
};

/// Rows printed by tests/gpu/kernel_times replace these. GPUs without a row fuse everything that
/// cuBLASLt supports, as if unmeasured.
inline constexpr Fusion kFusions[] = {
    {80, Epilogue::bias},           {80, Epilogue::gelu},      {80, Epilogue::bias_gelu},
    {80, Epilogue::gelu_backward},  {80, Epilogue::row_sums},  // unmeasured
    {90, Epilogue::bias},           {90, Epilogue::gelu},      {90, Epilogue::bias_gelu},
    {90, Epilogue::gelu_backward},  {90, Epilogue::row_sums},  // unmeasured
    {100, Epilogue::bias},          {100, Epilogue::gelu},     {100, Epilogue::bias_gelu},
    {100, Epilogue::gelu_backward}, {100, Epilogue::row_sums},  // unmeasured
};

/// The compute capability of the calling thread's GPU, 10 × major + minor.
int compute_capability();

/// Whether products on the calling thread's GPU have this epilogue. If cuBLASLt does not support
/// it for a product, that product runs without it in any case.
bool fuses(Epilogue epilogue);

/// Replaces kFusions for the calling thread, for tests and measurements. `fusions` must outlive the
/// thread's products.
void use_fusions(std::span<const Fusion> fusions);

/// The product that runs for `key`: without its epilogue if that is not fused.
ProductKey with_fusions(ProductKey key);

}  // namespace tessera::cuda
