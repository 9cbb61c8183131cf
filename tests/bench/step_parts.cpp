#include "tests/bench/step_parts.h"

#include <cmath>

#include "core/ops/activation.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/reduce.h"
#include "parallel/layers/partition.h"
#include "tests/bench/filled.h"

namespace tessera::bench {

StepParts::StepParts(const RunConfig& config)
    : config_(config),
      self_(make_self_communicator()),
      groups_(make_parallel_groups(*self_)),
      model_(config.model, store_, *self_),
      tokens_({config.batch.micro, config.model.seq_length}, DType::i32),
      positions_({config.batch.micro * config.model.seq_length}, DType::i32),
      loss_sum_({1}, DType::f64),
      loss_sums_({LossSums::kCount}, DType::f64),
      grad_scale_({1}, DType::f32) {
  const ModelConfig& model = config.model;
  const DType dtype = config.run.precision;
  const int64_t batch = config.batch.micro, seq = model.seq_length, width = model.hidden_size;
  const int64_t heads = model.num_heads, wide = model.resolved_mlp_size(), rows = batch * seq;
  const Shape x = {batch, seq, width}, hidden = {batch, seq, wide};
  const Shape qkv = {batch, seq, 3 * heads, model.resolved_head_dim()};

  store_.allocate(kCpu, dtype, StoreFor::training);
  state_ = std::make_unique<OptimizerState>(store_);
  state_->initialize(1);
  fill(grad_scale_.tensor, 1.0);
  clip_ = std::make_unique<GradientClip>(store_, groups_,
                                         ClipRule{.max_norm = config.optimizer.grad_clip});
  optimizer_ = std::make_unique<Optimizer>(config.optimizer, *state_, groups_);
  attention_.scale = 1.0f / std::sqrt(static_cast<float>(model.resolved_head_dim()));
  attention_.mask = AttentionMask::make_causal();
  attention_.total_heads = heads;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    layers_.push_back({filled(qkv, dtype),
                       filled({batch, seq, heads, model.resolved_head_dim()}, dtype),
                       filled({batch, heads, seq}, DType::f32), filled(x, dtype), filled(x, dtype),
                       filled({rows}, DType::f32), filled({rows}, DType::f32),
                       filled(hidden, dtype), filled(hidden, dtype)});
  }
  for (int64_t i = 0; i < rows; ++i) {
    tokens_.tensor.data<int32_t>()[i] = static_cast<int32_t>(i * 7919 % model.vocab_size);
    positions_.tensor.data<int32_t>()[i] = static_cast<int32_t>(i % model.seq_length);
  }
  logits_ = filled({rows, partition_vocab(model.vocab_size, 1, 0).padded}, dtype);
  statistics_ = filled({3, rows}, DType::f32);
  gradient_ = filled(x, dtype);
  dqkv_ = filled(qkv, dtype);
  dhidden_ = filled(hidden, dtype);
  vector_ = filled({wide}, dtype);
  sums_ = filled({wide}, DType::f32);
}

void StepParts::embedding_forward_part() {
  const Parameter& words = store_.parameters()[0];
  const Parameter& positions = store_.parameters()[1];
  const Tensor& x = layers_[0].x.tensor;
  embedding_forward(tokens_.tensor, words.value(), {0, config_.model.vocab_size}, x);
  embedding_add(x, positions_.tensor, positions.value(), x);
}

void StepParts::embedding_backward_part() {
  embedding_backward(positions_.tensor.view(tokens_.tensor.shape()), gradient_.tensor,
                     {0, config_.model.seq_length}, store_.parameters()[1].grad());
  embedding_backward(tokens_.tensor, gradient_.tensor, {0, config_.model.vocab_size},
                     store_.parameters()[0].grad());
}

void StepParts::norm_forward_part() {
  const Tensor weight = vector_.tensor.slice(0, config_.model.hidden_size);
  const auto norm = [&](const Layer& layer) {
    layer_norm_forward(layer.x.tensor, weight, weight, 1e-5f, layer.y.tensor, layer.mean.tensor,
                       layer.rstd.tensor);
  };
  for (const Layer& layer : layers_) {
    norm(layer);
    norm(layer);
  }
  norm(layers_.back());
}

void StepParts::norm_backward_part() {
  const Tensor weight = vector_.tensor.slice(0, config_.model.hidden_size);
  const Tensor sums = sums_.tensor.slice(0, config_.model.hidden_size);
  const auto norm = [&](const Layer& layer) {
    layer_norm_backward(layer.y.tensor, layer.x.tensor, weight, layer.mean.tensor,
                        layer.rstd.tensor, gradient_.tensor, gradient_.tensor, sums, sums);
  };
  for (const Layer& layer : layers_) {
    norm(layer);
    norm(layer);
  }
  norm(layers_.back());
}

void StepParts::attention_forward_part() {
  for (const Layer& layer : layers_) {
    attention_forward(layer.qkv.tensor, attention_, layer.attended.tensor,
                      layer.log_sum_exp.tensor);
  }
}

void StepParts::attention_backward_part() {
  const Tensor dout = gradient_.tensor.view(layers_[0].attended.tensor.shape());
  for (const Layer& layer : layers_) {
    attention_backward(dout, layer.qkv.tensor, layer.attended.tensor, layer.log_sum_exp.tensor,
                       attention_, dqkv_.tensor);
  }
}

void StepParts::activation_forward_part() {
  for (const Layer& layer : layers_) {
    activation_forward(layer.hidden.tensor, Activation::gelu_tanh, layer.active.tensor);
  }
}

void StepParts::activation_backward_part() {
  for (const Layer& layer : layers_) {
    activation_backward(layer.active.tensor, layer.hidden.tensor, Activation::gelu_tanh,
                        dhidden_.tensor);
  }
}

void StepParts::residual_part() {
  const Tensor bias = vector_.tensor.slice(0, config_.model.hidden_size);
  for (const Layer& layer : layers_) {
    bias_dropout_add(layer.y.tensor, bias, gradient_.tensor, {}, layer.y.tensor);
    bias_dropout_add(layer.x.tensor, bias, gradient_.tensor, {}, layer.x.tensor);
  }
}

void StepParts::bias_gradient_part() {
  if (config_.model.bias == Bias::none) return;
  const auto sum = [&](const Tensor& dy, int64_t columns) {
    column_sum(dy.view({dy.numel() / columns, columns}), sums_.tensor.slice(0, columns));
  };
  const int64_t width = config_.model.hidden_size;
  for (const Layer& layer : layers_) {
    sum(layer.x.tensor, width);
    sum(layer.hidden.tensor, config_.model.resolved_mlp_size());
    sum(layer.y.tensor, width);
    sum(layer.qkv.tensor, 3 * width);
  }
}

void StepParts::loss_part() {
  const int64_t rows = tokens_.tensor.numel();
  const Tensor targets = tokens_.tensor.view({rows});
  const auto row = [&](int64_t i) { return statistics_.tensor.slice(i, i + 1).view({rows}); };
  cross_entropy_statistics(logits_.tensor, targets, 0, config_.model.vocab_size, row(0), row(1),
                           row(2));
  cross_entropy_loss(row(0), row(1), row(2), targets, row(0), loss_sum_.tensor);
  cross_entropy_gradient(logits_.tensor, targets, 0, config_.model.vocab_size, row(0), 1.0f);
}

}  // namespace tessera::bench
