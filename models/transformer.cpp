#include "models/transformer.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/error.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "models/attention_plane.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

Transformer::Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp,
                         const StackSpec& stack)
    : config_(config),
      causal_(stack.causal),
      first_layer_(stack.first_layer),
      store_(store),
      position_bias_(store, stack.name, config, stack.causal, tp) {
  first_unit_ = store.units().size();
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const std::string name = fmt::format("{}blocks.{}", stack.name, layer);
    store.begin_unit(name, /*is_block=*/true);
    blocks_.emplace_back(store, name, config, stack.first_layer + layer, stack.has_cross_attention,
                         tp);
  }
  store.begin_unit(stack.next_unit);
  if (const auto reason = attention_unsupported_reason(traits_of(config).mask_kinds())) {
    fail("no attention implementation supports the masks of this model: {}", *reason);
  }
  if (config.attention_plane) {
    attention_plane_ = &store.declare_constant(config.attention_plane->values.tensor);
  }
  require(config.attention_mask_file.has_value() == (attention_plane_ != nullptr) &&
              (attention_plane_ == nullptr || stack.name.empty()),
          "transformer: the mask of attention_mask_file has not been read, or the model has "
          "several stacks");
  if (config.pre_norm()) {
    final_norm_.emplace(store, stack.name + "final_norm", config, /*local_rows=*/true);
  }
}

Transformer::Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp)
    : Transformer(store, config, tp, {.causal = traits_of(config).causal}) {}

Transformer::Views Transformer::views(const StepContext& ctx, const AttentionMask& mask,
                                      const Tensor& positions) const {
  Views result{{mask}, {mask}};
  const bool has_exceptions = config_.attention_dilation > 1 || config_.global_tokens > 0;
  require(mask.prefix == 0 && mask.dilation == 1 && mask.global_tokens == 0 &&
              (mask.window == 0 || !has_exceptions),
          "transformer: prefix, dilation and global tokens of a mask are the model's, but the mask "
          "is: {}",
          to_string(kinds_of(mask)));
  for (Visibility* view : {&result.local, &result.global}) {
    const AttentionMask own = model_mask(config_, causal_, view == &result.local);
    AttentionMask& both = view->mask;
    both.causal |= own.causal;
    both.prefix = own.prefix;
    if (own.window > 0) {
      both.window = both.window > 0 ? std::min(both.window, own.window) : own.window;
    }
    both.dilation = own.dilation;
    both.global_tokens = own.global_tokens;
    if (ctx.cut == nullptr) continue;
    view->positions = positions;
    view->sees_halo = own.window > 0 && ctx.cut->halo.defined();
  }
  if (attention_plane_ != nullptr) {
    const bool is_additive = config_.attention_plane->is_additive();
    const auto part = is_additive ? &AttentionMask::additive : &AttentionMask::hidden;
    require(!(mask.*part).defined(),
            "transformer: the model's attention_mask_file is the {} part of its mask, so that of "
            "a batch cannot have one, but is: {}",
            is_additive ? "additive" : "hidden", to_string(kinds_of(mask)));
    result.local.mask.*part = result.global.mask.*part = *attention_plane_;
  }
  result.local.position_bias = result.global.position_bias = position_bias_.table(ctx);
  if (config_.positions != Positions::rotary) return result;
  const auto make_table = [&](const RotaryFrequencies& frequencies) {
    const Tensor table =
        ctx.arena.allocate({positions.numel(), config_.resolved_head_dim()}, DType::f32);
    rotary_table(positions, frequencies, table);
    return table;
  };
  Tensor common;  // of all layers without frequencies of their own
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    Tensor& table = (config_.is_local(layer) ? result.local : result.global).rotary;
    if (table.defined()) continue;
    const RotaryFrequencies frequencies = config_.rotary_of(layer);
    if (frequencies != config_.rotary) {
      table = make_table(frequencies);
    } else {
      if (!common.defined()) common = make_table(frequencies);
      table = common;
    }
  }
  return result;
}

Tensor Transformer::last_norm(const StepContext& ctx, const Tensor& x) {
  if (!final_norm_) return x;
  const TraceRange range("final norm");
  return final_norm_->forward(ctx, x);
}

Tensor Transformer::forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask,
                            const Tensor& positions, const EncodedSource* source,
                            const std::optional<OutputRows>& outputs) {
  const TrafficScope traffic(Traffic::forward);
  Saved& saved = saved_.at(ctx);
  saved.inputs.clear();
  saved.views = views(ctx, mask, positions);
  saved.outputs = outputs;
  saved.views.local.source = saved.views.global.source = source;
  if (position_bias_.is_learned()) {
    const Tensor gradient =
        ctx.arena.allocate(saved.views.global.position_bias.shape(), DType::f32);
    saved.views.local.dposition_bias = saved.views.global.dposition_bias = gradient;
  }
  Tensor y = x;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    saved.inputs.push_back(y);
    y = block_forward(ctx, i);
  }
  const StepContext output_ctx = outputs ? outputs->context(ctx) : ctx;
  y = last_norm(output_ctx, y);
  const Dropout dropout = final_dropout(output_ctx);
  if (dropout.active()) dropout_forward(y, dropout, y);  // in place: nothing else reads y
  return y;
}

Dropout Transformer::final_dropout(const StepContext& ctx) const {
  const bool has_dropout = architecture_of(config_.kind).inner_dropout;
  return ctx.dropout(has_dropout ? config_.dropout : 0.0, RandomPurpose::final_dropout,
                     first_layer_);
}

Tensor Transformer::block_forward(const StepContext& ctx, size_t i) {
  const Saved& saved = saved_.at(ctx);
  const Tensor& x = saved.inputs[i];
  const Visibility& view = view_of(saved.views, i);
  const bool is_read_again = !ctx.training || i >= first_trained_block();
  const OutputRows* outputs = outputs_of(saved, i);
  const UnitUse use = begin_use(ctx, i);
  if (ctx.recompute != Recompute::block && is_read_again) {
    const Tensor y = blocks_[i].forward(ctx, x, view, outputs);
    end_use(ctx, use);
    return y;
  }
  Shape shape = x.shape();
  if (outputs != nullptr) shape.set(-2, outputs->rows.local().size());
  const Tensor y = ctx.arena.allocate(shape, x.dtype());
  const Arena::Scope scope(ctx.arena);
  copy(blocks_[i].forward(ctx, x, view, outputs), y);
  end_use(ctx, use);
  return y;
}

UnitUse Transformer::begin_use(const StepContext& ctx, size_t block, bool backward) const {
  UnitUse use{first_unit_ + block, {}, backward};
  if (units_ == nullptr) return use;
  if (backward ? block > first_trained_block() : block + 1 < blocks_.size()) {
    use.next = backward ? use.unit - 1 : use.unit + 1;
  }
  units_->begin(ctx, use);
  return use;
}

void Transformer::end_use(const StepContext& ctx, const UnitUse& use) const {
  if (units_ != nullptr) units_->end(ctx, use);
}

size_t Transformer::first_trained_block() const {
  const auto& parameters = store_.parameters();
  const auto trained = std::ranges::find(parameters, false, &Parameter::frozen);
  if (trained == parameters.end()) return blocks_.size();
  return std::clamp(trained->unit, first_unit_, first_unit_ + blocks_.size()) - first_unit_;
}

ResidualGradient Transformer::residual_gradient(const StepContext& ctx, const Tensor& sum) const {
  ResidualGradient gradient{sum};
  if (!config_.pre_norm()) gradient.branch = ctx.arena.allocate(sum.shape(), sum.dtype());
  return gradient;
}

Tensor Transformer::backward(const StepContext& ctx, Tensor gradient) {
  const TrafficScope traffic(Traffic::backward);
  const size_t first = first_trained_block();
  const Saved& saved = saved_.at(ctx);
  const StepContext output_ctx = saved.outputs ? saved.outputs->context(ctx) : ctx;
  const Dropout dropout = final_dropout(output_ctx);
  if (dropout.active()) dropout_backward(gradient, dropout, gradient);
  if (final_norm_) {
    const TraceRange range("final norm backward");
    final_norm_->backward(output_ctx, gradient, {}, gradient);
  }
  const Tensor bias_gradient = saved.views.global.dposition_bias;
  if (bias_gradient.defined()) {
    const TraceRange range("position bias backward");
    fill(bias_gradient, 0.0);
  }
  const Shape& all_rows = saved.inputs[0].shape();
  const Tensor dx = saved.outputs ? ctx.arena.allocate(all_rows, gradient.dtype()) : gradient;
  const Arena::Scope of_all(ctx.arena);
  ResidualGradient parts = residual_gradient(ctx, dx);
  for (size_t i = blocks_.size(); i-- > first;) {
    const Arena::Scope scope(ctx.arena);
    const UnitUse use = begin_use(ctx, i, /*backward=*/true);
    if (ctx.recompute == Recompute::block) {
      const TrafficScope again(Traffic::recompute);
      const TraceRange range("recompute");
      blocks_[i].forward(ctx, saved.inputs[i], view_of(saved.views, i), outputs_of(saved, i));
    }
    if (const OutputRows* outputs = outputs_of(saved, i)) {
      ResidualGradient rows = residual_gradient(ctx, gradient);
      blocks_[i].backward(ctx, *outputs, rows, parts);
    } else {
      blocks_[i].backward(ctx, parts);
    }
    end_use(ctx, use);
  }
  if (first > 0) return {};
  if (bias_gradient.defined()) position_bias_.backward(ctx, bias_gradient);
  const TraceRange range("residual backward");
  parts.join();
  return dx;
}

Tensor Transformer::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                           const Tensor& positions, const EncodedSource* source) {
  Views seen = views(ctx, {}, positions);
  seen.local.source = seen.global.source = source;
  Tensor y = x;
  if (ctx.recompute != Recompute::block) {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const UnitUse use = begin_use(ctx, i);
      y = blocks_[i].extend(ctx, y, cache, view_of(seen, i));
      end_use(ctx, use);
    }
    return last_norm(ctx, y);
  }
  const std::array<Tensor, 2> outputs = {ctx.arena.allocate(x.shape(), x.dtype()),
                                         ctx.arena.allocate(x.shape(), x.dtype())};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Arena::Scope scope(ctx.arena);
    const UnitUse use = begin_use(ctx, i);
    copy(blocks_[i].extend(ctx, y, cache, view_of(seen, i)), outputs[i % 2]);
    end_use(ctx, use);
    y = outputs[i % 2];
  }
  return last_norm(ctx, y);
}

std::vector<Tensor> Transformer::project_source(const StepContext& ctx,
                                                const EncodedSource& source) {
  std::vector<Tensor> key_values;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const UnitUse use = begin_use(ctx, i);
    key_values.push_back(blocks_[i].cross_attention()->project(ctx, source));
    end_use(ctx, use);
  }
  return key_values;
}

AttentionMask mask_of(const TokenBatch& batch) {
  AttentionMask mask;
  mask.documents = batch.cut.defined() ? batch.cut.own_documents : batch.documents;
  mask.document_length = batch.document_length;
  const Tensor& hidden = batch.cut.defined() ? batch.cut.hidden : batch.hidden;
  if (hidden.defined()) mask.hidden_keys = hidden.view({1, hidden.numel()});
  return mask;
}

AttentionMask model_mask(const ModelConfig& config, bool causal, bool is_local) {
  AttentionMask mask;
  mask.causal = causal;
  if (causal) mask.prefix = config.attention_prefix;
  if (!is_local || config.attention_window == 0) return mask;
  mask.window = config.attention_window;
  mask.dilation = config.attention_dilation;
  mask.global_tokens = config.global_tokens;
  return mask;
}

StepContext context_for(const StepContext& ctx, const TokenBatch& batch) {
  StepContext pass = ctx;
  pass.padded_rows = {batch.padded_rows, batch.seq_length};
  pass.rows = ctx.rows.of(batch.num_tokens());
  pass.cut = batch.cut.defined() ? &batch.cut : nullptr;
  return pass;
}

}  // namespace tessera
