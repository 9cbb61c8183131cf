#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace tessera {

/// The peak of a GPU of this name, in dense FLOP/s of matrix products: with tensor cores in bf16
/// and TF32, without them in fp32. From NVIDIA's data sheets; nullopt for a GPU that is not in the
/// list.
std::optional<double> peak_flops(std::string_view device_name, DType precision, bool tf32 = false);

}  // namespace tessera
