#include "core/cuda/runtime.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TESSERA_HAS_NVTX
#endif

namespace tessera::cuda {

#ifdef TESSERA_HAS_NVTX
void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }
#else
void push_range(const char* /*name*/) {}
void pop_range() {}
#endif

}  // namespace tessera::cuda
