#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace tessera {

/// What a GPU of this name can do at most, in dense FLOP/s of matrix products: on its tensor cores
/// in bf16 and TF32, without them in fp32. From NVIDIA's data sheets; nothing for a GPU that is not
/// in the list.
std::optional<double> peak_flops(std::string_view device_name, DType precision, bool tf32 = false);

}  // namespace tessera
