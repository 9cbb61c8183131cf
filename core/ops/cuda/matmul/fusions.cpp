#include "core/ops/cuda/matmul/fusions.h"

#include <cuda_runtime.h>

#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"

namespace tessera::cuda {
namespace {

thread_local std::span<const Fusion> fusions_of_thread = kFusions;

}  // namespace

int compute_capability() {
  thread_local int device = -1, capability = 0;
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device) {
    const DeviceInfo info = device_kind(current);
    capability = 10 * info.major + info.minor;
    device = current;
  }
  return capability;
}

bool fuses(Epilogue epilogue, int64_t columns) {
  const int capability = compute_capability();
  const Fusion *nearest = nullptr, *fewest = nullptr;
  for (const Fusion& row : fusions_of_thread) {
    if (row.capability != capability || row.epilogue != epilogue) continue;
    if (fewest == nullptr || row.columns < fewest->columns) fewest = &row;
    const bool is_nearer = nearest == nullptr || row.columns > nearest->columns;
    if (row.columns <= columns && is_nearer) nearest = &row;
  }
  if (nearest == nullptr) nearest = fewest;
  return nearest == nullptr || nearest->fuse;
}

void use_fusions(std::span<const Fusion> fusions) { fusions_of_thread = fusions; }

// As matmul.cpp does: the bias is written first, and the product is added to it; everything else
// follows the product.
ProductKey with_fusions(ProductKey key) {
  if (key.epilogue == Epilogue::none || fuses(key.epilogue, key.n)) return key;
  if (key.epilogue == Epilogue::bias_gelu && fuses(Epilogue::bias, key.n)) {
    key.epilogue = Epilogue::bias;
    return key;
  }
  key.accumulate |= key.epilogue == Epilogue::bias || key.epilogue == Epilogue::bias_gelu;
  key.epilogue = Epilogue::none;
  return key;
}

}  // namespace tessera::cuda
