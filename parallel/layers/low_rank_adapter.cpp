#include "parallel/layers/low_rank_adapter.h"

#include <cmath>

#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "parallel/layers/linear_gradients.h"

namespace tessera {
namespace {

constexpr const char* kA = ".lora_a";
constexpr const char* kB = ".lora_b";

/// A starts with the variance of PEFT's, that of a uniform distribution within ± 1 / sqrt(in).
Init initial_a(int64_t in_features) {
  return Init::normal(1.0f / std::sqrt(3.0f * static_cast<float>(in_features)));
}

/// x, or dropout(x) in ctx.arena.
Tensor dropped(const StepContext& ctx, const Tensor& x, const Dropout& dropout) {
  if (!dropout.active()) return x;
  const Tensor y = ctx.arena.allocate(x.shape(), x.dtype());
  dropout_forward(x, dropout, y);
  return y;
}

}  // namespace

LowRankNames low_rank_names(const std::string& layer) { return {layer + kA, layer + kB}; }

bool is_of_low_rank_adapter(const std::string& parameter) {
  return parameter.ends_with(kA) || parameter.ends_with(kB);
}

LowRankAdapter::LowRankAdapter(ParameterStore& store, const std::string& layer,
                               const ParameterSpec& weight, const LowRank& settings)
    : layer_(layer), scale_(settings.scale), dropout_(settings.dropout) {
  const Shape& shape = weight.global_shape;
  const int in_dim = shape.rank() - 1;
  const bool splits_input = weight.shard.dim == in_dim;
  const LowRankNames names = low_rank_names(layer);
  ParameterSpec a{names.a,
                  {settings.rank, shape[in_dim]},
                  {},
                  initial_a(shape[in_dim]),
                  /*decay=*/true};
  ParameterSpec b{names.b, shape, {}, Init::zeros(), /*decay=*/true};
  b.global_shape.set(in_dim, settings.rank);
  ParameterSpec& sharded = splits_input ? a : b;
  sharded.shard = weight.shard;
  if (splits_input) sharded.shard.dim = 1;
  sharded.slot_extent = weight.slot_extent;
  sharded.matrices = weight.matrices;
  ParameterSpec& replicated = splits_input ? b : a;
  replicated.matrices = WeightMatrices{};
  replicated.partial_over = kReplicaAxes | AxisSet{Axis::tensor};
  a_ = &store.declare(a);
  b_ = &store.declare(b);
}

Tensor LowRankAdapter::b_matrix() const {
  return b_->value().view({rows_of(b_->value()), b_->value().dim(-1)});
}

/// The dropout of the input, which has all rows and this rank's features.
Dropout LowRankAdapter::dropout(const StepContext& ctx) const {
  Dropout result =
      ctx.dropout(dropout_, RandomPurpose::adapter_dropout, /*layer=*/0, ctx.padded_rows.index);
  result.key.seed = seed_for(ctx.seed, layer_);
  result.first_column = a_->shard.dim == 1 ? a_->shard.range.begin : 0;
  result.total_columns = a_->global_shape[1];
  return result;
}

/// scale × x Aᵀ (rows, rank) in ctx.arena.
Tensor LowRankAdapter::reduced(const StepContext& ctx, const Tensor& x) const {
  const Tensor h = ctx.arena.allocate({rows_of(x), a_->value().dim(0)}, x.dtype());
  linear_forward(x, a_->value(), {}, h);
  scale(h, scale_, h);
  return h;
}

void LowRankAdapter::forward(const StepContext& ctx, const Tensor& x, const Tensor& y) const {
  const Arena::Scope scope(ctx.arena);
  const Tensor addend = ctx.arena.allocate(y.shape(), y.dtype());
  linear_forward(reduced(ctx, dropped(ctx, x, dropout(ctx))), b_matrix(), {}, addend);
  add(y, addend, y);
}

void LowRankAdapter::backward(const StepContext& ctx, const Tensor& dy, const Tensor& x,
                              const Tensor& dx) const {
  const Arena::Scope scope(ctx.arena);
  const Dropout mask = dropout(ctx);
  const Tensor in = dropped(ctx, x, mask), h = reduced(ctx, in);
  const Tensor rows = dy.view({rows_of(dy), dy.dim(-1)});
  add_linear_gradients(rows, h, *b_, nullptr);
  const Tensor dh = h;  // no longer needed
  linear_backward_input(rows, b_matrix(), dh);
  scale(dh, scale_, dh);
  add_linear_gradients(dh, in.view({rows_of(in), in.dim(-1)}), *a_, nullptr);
  const Tensor addend = ctx.arena.allocate(dx.shape(), dx.dtype());
  linear_backward_input(dh, a_->value(), addend);
  if (mask.active()) dropout_backward(addend, mask, addend);
  add(dx, addend, dx);
  ctx.gradient_is_final(*b_);
  ctx.gradient_is_final(*a_);
}

}  // namespace tessera
