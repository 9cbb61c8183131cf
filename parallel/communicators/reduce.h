#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// For i in [0, count), sets every outputs[k][i] = inputs[0][i] op inputs[1][i] op ..., in this
/// order, so that the result depends only on the inputs. All arrays have `dtype` and are in host
/// memory. An output may be one of the inputs; otherwise they must not overlap. bf16 accumulates in
/// fp32 and rounds once.
void reduce_elements(DType dtype, ReduceOp op, std::span<const void* const> inputs,
                     std::span<void* const> outputs, int64_t count);

}  // namespace tessera
