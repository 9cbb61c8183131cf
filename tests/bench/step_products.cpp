#include "tests/bench/step_products.h"

#include <algorithm>
#include <cmath>

#include "core/ops/matmul.h"
#include "core/random.h"
#include "models/architecture.h"
#include "models/output_rows.h"
#include "parallel/layers/partition.h"
#include "tests/bench/bench_run.h"
#include "tests/bench/filled.h"

namespace tessera::bench {
namespace {

struct LinearSize {
  int64_t rows, out_features, in_features;

  double weights() const { return static_cast<double>(out_features * in_features); }
};

/// The linear layers in the order of the forward pass; `vocab` is the head's. BERT's pooler is
/// omitted, because it has few rows.
std::vector<LinearSize> linears(const RunConfig& config, int64_t vocab) {
  const ModelConfig& model = config.model;
  const int64_t rows = rows_of(config), c = model.hidden_size, f = model.resolved_mlp_size();
  const auto targets = std::llround(target_share(config) * static_cast<double>(rows));
  const int64_t read = read_by_heads(model).count(rows, targets, config.batch.micro);
  std::vector<LinearSize> sizes;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const int64_t behind = layer + 1 < model.num_layers ? rows : read;  // behind attention
    sizes.insert(sizes.end(), {{rows, 3 * c, c}, {behind, c, c}, {behind, f, c}, {behind, c, f}});
  }
  if (traits_of(model).head_transform) sizes.push_back({targets, c, c});
  sizes.push_back({targets, vocab, c});
  return sizes;
}

}  // namespace

StepProducts::StepProducts(const RunConfig& config) {
  const DType dtype = config.run.precision;
  const int64_t vocab = partition_vocab(config.model.vocab_size, 1, 0).padded;
  int64_t widest = 0;
  for (const auto [rows, n, k] : linears(config, vocab)) {
    linears_.push_back({filled({rows, k}, dtype), filled({n, k}, dtype), filled({rows, n}, dtype),
                        filled({n, k}, DType::f32)});
    widest = std::max(widest, k);
  }
  dx_ = filled({rows_of(config), widest}, dtype);
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
  double linear = 0.0;
  for (const LinearSize& size : linears(config, model.vocab_size)) {
    linear += 3.0 * 2.0 * static_cast<double>(size.rows) * size.weights();
  }
  const double causal_share = traits_of(model).causal ? 0.5 : 1.0;
  const double scores = causal_share * static_cast<double>(rows_of(config)) *
                        static_cast<double>(model.seq_length * model.hidden_size);
  const double attention = (2.0 + 4.0) * 2.0 * scores * static_cast<double>(model.num_layers);
  return linear + attention;
}

}  // namespace tessera::bench
