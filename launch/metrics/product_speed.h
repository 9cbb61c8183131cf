#pragma once

#include "core/device.h"
#include "core/dtype.h"

namespace tessera {

/// What `device` reaches, in FLOP/s, in a product of two matrices of `size` × `size` in
/// `precision`: the best of a few, after one that does not count. Needs three such matrices of free
/// memory; 8192 is enough for a large GPU. Waits for the device.
double product_speed(Device device, DType precision, int64_t size);

}  // namespace tessera
