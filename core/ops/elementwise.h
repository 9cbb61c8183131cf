#pragma once

#include "core/tensor.h"

namespace tessera {

/// Sets all elements to `value` (any dtype that can represent it).
void fill(Tensor tensor, double value);

/// destination = source, converted between fp32 and bf16 if the dtypes differ. They may be the same
/// tensor; partial overlap throws. Between the host and a GPU the dtypes must be equal. A copy to
/// the host returns when done. A copy from pinned host memory (core/memory.h) may still be running:
/// do not change the source before a synchronize.
void copy(const Tensor& source, Tensor destination);

/// out = a + b, in one dtype, fp32 or bf16. out may alias a or b.
void add(const Tensor& a, const Tensor& b, Tensor out);

/// y = factor × x, in one dtype, fp32 or bf16. y may alias x.
void scale(const Tensor& x, float factor, Tensor y);

/// out = a × x + b × y, in one dtype, fp32 or bf16. out may alias x or y.
void add_scaled(float a, const Tensor& x, float b, const Tensor& y, Tensor out);

/// y = x / (√squares + eps), in one dtype, fp32 or bf16, where squares, (1) fp64 on the same
/// device, is the sum of the squares of x (reduce.h). y may alias x.
void scale_to_unit_norm(const Tensor& x, const Tensor& squares, float eps, Tensor y);

}  // namespace tessera
