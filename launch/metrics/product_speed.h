#pragma once

#include "core/device.h"
#include "core/dtype.h"

namespace tessera {

/// Measures the FLOP/s of `device` in a `size` × `size` matrix product in `precision`: the best of
/// a few runs after a warm-up. Needs free memory for three such matrices; 8192 is enough for a
/// large GPU. Waits for the device.
double product_speed(Device device, DType precision, int64_t size);

}  // namespace tessera
