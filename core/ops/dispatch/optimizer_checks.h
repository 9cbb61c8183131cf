#pragma once

#include <initializer_list>

#include "core/tensor.h"

namespace tessera {

/// An argument of an op, for messages.
struct Argument {
  const Tensor& tensor;
  const char* name;
};

/// Throws unless the step's scale is (1) fp32.
void require_grad_scale(const Tensor& grad_scale, const char* op);

/// Throws unless each of `state` has as many elements as `in`, and shares memory neither with `in`
/// or `grad_scale` nor with another one.
void require_state(const char* op, const Tensor& grad_scale, const Argument& in,
                   std::initializer_list<Argument> state);

/// Throws unless master is fp32, value fp32 or bf16, and bf16 if it is rounded stochastically, and
/// unless each of them together with `moments` passes require_state(). value may be master.
void require_weights(const char* op, const Tensor& grad_scale, const Argument& in,
                     std::initializer_list<Argument> moments, const Tensor& master,
                     const Tensor& value, bool rounds_stochastically);

/// Throws unless `tensor` is bf16 if it is rounded stochastically, otherwise fp32.
void require_moment(const Tensor& tensor, bool rounds_stochastically, const char* op,
                    const char* name);

/// Throws unless 0 <= beta < 1.
void require_decay(double beta, const char* op, const char* name);

}  // namespace tessera
