#include "parallel/gradient_norm.h"

#include <cmath>

#include "core/ops/reduce.h"

namespace tessera {

double gradient_norm(const ParameterStore& store, Communicator& tp) {
  double squares = 0.0;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.shard.replicated() && tp.rank() != 0) continue;
    squares += sum_of_squares(parameter.grad);
  }
  tp.all_reduce(Tensor(&squares, {1}, DType::f64, kCpu));
  return std::sqrt(squares);
}

}  // namespace tessera
