#include "core/ops/cuda/matmul/fusions.h"

#include <cuda_runtime.h>

#include <algorithm>

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

bool fuses(Epilogue epilogue) {
  const int capability = compute_capability();
  const auto row = std::ranges::find_if(fusions_of_thread, [&](const Fusion& fusion) {
    return fusion.capability == capability && fusion.epilogue == epilogue;
  });
  return row == fusions_of_thread.end() || row->fuse;
}

void use_fusions(std::span<const Fusion> fusions) { fusions_of_thread = fusions; }

// As matmul.cpp does: the bias is written first, and the product is added to it; everything else
// follows the product.
ProductKey with_fusions(ProductKey key) {
  if (key.epilogue == Epilogue::none || fuses(key.epilogue)) return key;
  if (key.epilogue == Epilogue::bias_gelu && fuses(Epilogue::bias)) {
    key.epilogue = Epilogue::bias;
    return key;
  }
  key.accumulate |= key.epilogue == Epilogue::bias || key.epilogue == Epilogue::bias_gelu;
  key.epilogue = Epilogue::none;
  return key;
}

}  // namespace tessera::cuda
