#pragma once

#include "core/memory.h"

namespace tessera::bench {

/// A tensor of small normal numbers: zeros and denormals may have other speeds.
OwnedTensor filled(const Shape& shape, DType dtype);

}  // namespace tessera::bench
