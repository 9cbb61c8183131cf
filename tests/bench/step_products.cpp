#include "tests/bench/step_products.h"

#include <algorithm>

#include "core/ops/matmul.h"
#include "core/random.h"
#include "parallel/partition.h"
#include "tests/bench/bench_run.h"
#include "tests/bench/filled.h"

namespace tessera::bench {
namespace {

struct LinearSize {
  int64_t out_features, in_features;
};

/// The linear layers in the order of the forward pass, without the head.
std::vector<LinearSize> block_linears(const ModelConfig& model) {
  const int64_t c = model.hidden_size, f = model.resolved_mlp_size();
  std::vector<LinearSize> sizes;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    sizes.insert(sizes.end(), {{3 * c, c}, {c, c}, {f, c}, {c, f}});
  }
  return sizes;
}

}  // namespace

StepProducts::StepProducts(const RunConfig& config) {
  const int64_t rows = rows_of(config);
  const DType dtype = config.run.precision;
  std::vector<LinearSize> sizes = block_linears(config.model);
  sizes.push_back(
      {partition_vocab(config.model.vocab_size, 1, 0).padded, config.model.hidden_size});
  int64_t widest = 0;
  for (const auto [n, k] : sizes) {
    linears_.push_back({filled({rows, k}, dtype), filled({n, k}, dtype), filled({rows, n}, dtype),
                        filled({n, k}, DType::f32)});
    widest = std::max(widest, k);
  }
  dx_ = filled({rows, widest}, dtype);
}

void StepProducts::run() {
  for (const Linear& linear : linears_) forward(linear);
  for (size_t i = linears_.size(); i-- > 0;) backward(linears_[i]);
}

void StepProducts::forward(const Linear& linear) const {
  linear_forward(linear.x.tensor, linear.w.tensor, {}, linear.y.tensor);
}

void StepProducts::backward(const Linear& linear) const {
  const Tensor& x = linear.x.tensor;
  const Tensor dx(dx_.tensor.raw(), x.shape(), x.dtype(), x.device());
  linear_backward_input(linear.y.tensor, linear.w.tensor, dx);
  linear_backward_weight(linear.y.tensor, x, linear.dw.tensor, Accumulate::no);
}

double step_flops(const RunConfig& config) {
  const ModelConfig& model = config.model;
  double weights = static_cast<double>(model.vocab_size * model.hidden_size);
  for (const auto [n, k] : block_linears(model)) weights += static_cast<double>(n * k);
  const auto rows = static_cast<double>(rows_of(config));
  const double linear = 3.0 * 2.0 * rows * weights;
  const double scores = rows * static_cast<double>(model.seq_length * model.hidden_size) / 2.0;
  const double attention = (2.0 + 4.0) * 2.0 * scores * static_cast<double>(model.num_layers);
  return linear + attention;
}

}  // namespace tessera::bench
