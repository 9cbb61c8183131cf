#include "core/ops/dispatch/optimizer_checks.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"

namespace tessera {

void require_grad_scale(const Tensor& grad_scale, const char* op) {
  require_shape(grad_scale, {1}, op, "grad_scale");
  require_dtype(grad_scale, DType::f32, op, "grad_scale");
}

void require_state(const char* op, const Tensor& grad_scale, const Argument& in,
                   std::initializer_list<Argument> state) {
  require_grad_scale(grad_scale, op);
  for (const Argument* each = state.begin(); each != state.end(); ++each) {
    const auto& [tensor, name] = *each;
    if (!tensor.defined() || tensor.numel() != in.tensor.numel()) {
      fail("{}: {} must have the {} elements of {}, but is {}", op, name, in.tensor.numel(),
           in.name, describe(tensor));
    }
    require_disjoint(tensor, name, in.tensor, in.name, op);
    require_disjoint(tensor, name, grad_scale, "grad_scale", op);
    for (const Argument* other = state.begin(); other != each; ++other) {
      require_disjoint(other->tensor, other->name, tensor, name, op);
    }
  }
}

void require_weights(const char* op, const Tensor& grad_scale, const Argument& in,
                     std::initializer_list<Argument> moments, const Tensor& master,
                     const Tensor& value, bool rounds_stochastically) {
  require_dtype(master, DType::f32, op, "master");
  require_float(value, op, "value");
  if (rounds_stochastically && value.dtype() != DType::bf16) {
    fail("{}: only bf16 values are rounded stochastically, but value is {}", op, describe(value));
  }
  require_same_or_disjoint(value, "value", master, "master", op);
  require_state(op, grad_scale, in, moments);
  for (const Argument& weight : {Argument{master, "master"}, Argument{value, "value"}}) {
    require_state(op, grad_scale, in, {weight});
    for (const Argument& moment : moments) {
      require_disjoint(moment.tensor, moment.name, weight.tensor, weight.name, op);
    }
  }
}

void require_moment(const Tensor& tensor, bool rounds_stochastically, const char* op,
                    const char* name) {
  require_dtype(tensor, rounds_stochastically ? DType::bf16 : DType::f32, op, name);
}

void require_decay(double beta, const char* op, const char* name) {
  require(0.0 <= beta && beta < 1.0, "{}: {} must be in [0, 1), but is {:g}", op, name, beta);
}

}  // namespace tessera
