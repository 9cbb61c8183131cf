#include "core/ops/attention.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/dispatch/attention_checks.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

/// Returns the number of heads.
int64_t require_qkv(const Tensor& qkv, const AttentionOptions& options, const char* op) {
  require(qkv.defined() && qkv.shape().rank() == 4,
          "{}: qkv must have shape (B, T, Hl + 2 Kl, D), but is {}", op, describe(qkv));
  if (options.memory.defined()) require_attention_memory(qkv, options, op);
  const AttentionHeads heads = attention_heads(qkv, options);
  require(options.memory.defined() || options.kv_heads != 0 || qkv.dim(2) % 3 == 0,
          "{}: without kv_heads, qkv must have as many keys and values as queries, but is {}", op,
          describe(qkv));
  require(heads.queries >= 0 && heads.key_values >= 0 &&
              heads.queries == heads.key_values * heads.in_group(),
          "{}: the queries of qkv {} are no multiple of the {} key-value heads", op, describe(qkv),
          heads.key_values);
  return heads.queries;
}

void require_log_sum_exp(const Tensor& log_sum_exp, const Tensor& qkv, int64_t heads,
                         const char* op) {
  require_shape(log_sum_exp, {qkv.dim(0), heads, qkv.dim(1)}, op, "log_sum_exp");
  require_dtype(log_sum_exp, DType::f32, op, "log_sum_exp");
}

void check_forward_tensors(const char* op, const Tensor& qkv, const AttentionOptions& options,
                           const Tensor& out, const Tensor& log_sum_exp) {
  const int64_t heads = require_qkv(qkv, options, op);
  require_shape(out, {qkv.dim(0), qkv.dim(1), heads, qkv.dim(3)}, op, "out");
  require_dtype(out, qkv.dtype(), op, "out");
  require_log_sum_exp(log_sum_exp, qkv, heads, op);
  require_attention_options(qkv, options, op);
}

/// The device of the tensors of an attention and of its options.
template <typename... Tensors>
Device attention_device(const char* op, const AttentionOptions& options,
                        const Tensors&... tensors) {
  const AttentionMask& mask = options.mask;
  return common_device(op, tensors..., mask.lengths, mask.hidden_keys, mask.documents, mask.hidden,
                       mask.additive, options.padded_rows.index, options.dropout.rng_offset,
                       options.position_bias, options.memory.key_values, options.memory.documents,
                       options.memory.padded_rows.index, options.memory.positions);
}

/// The graphs given to cuDNN read queries, keys and values of one tensor, so attention to a memory
/// uses the other kernels.
[[maybe_unused]] bool may_use_cudnn(Device device, const AttentionOptions& options) {
  return device.is_cuda() && !options.memory.defined();
}

/// `hidden` and `additive`, by position, of a decoded query with `heads` heads of this rank.
void require_decoded_planes(const AttentionOptions& options, int64_t heads, int64_t length,
                            const char* op) {
  const int64_t end = options.first_head + heads;
  const auto check = [&](const Tensor& plane, DType dtype, const char* name) {
    if (!plane.defined()) return;
    require_dtype(plane, dtype, op, name);
    require_position_plane(plane, name, options.total_heads, length, op);
    require(options.first_head >= 0 && end <= options.total_heads,
            "{}: heads [{}, {}) of this rank are not within the {} heads of all ranks", op,
            options.first_head, end, options.total_heads);
  };
  check(options.mask.hidden, DType::u8, "mask.hidden");
  check(options.mask.additive, DType::f32, "mask.additive");
}

/// A probability as multiples of 1/256.
double in_steps(double probability) { return std::round(probability * 256.0); }

}  // namespace

WeightDropout weight_dropout(const Dropout& dropout) {
  const double threshold = in_steps(double{dropout.probability});
  return {static_cast<uint32_t>(threshold), static_cast<float>(256.0 / (256.0 - threshold))};
}

std::optional<std::string> weight_dropout_unsupported_reason(double probability) {
  const double threshold = in_steps(probability);
  if (probability == 0.0 || (1.0 <= threshold && threshold <= 255.0)) return std::nullopt;
  return "weights are dropped by 8 random bits each, so the probability is rounded to a multiple "
         "of "
         "1/256: choose 0 or a number from 0.002 to 0.998";
}

void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp) {
  const OpRange range("attention_forward");
  constexpr const char* kOp = "attention_forward";
  check_forward_tensors(kOp, qkv, options, out, log_sum_exp);
  const Device device = attention_device(kOp, options, qkv, out, log_sum_exp);
  if constexpr (cuda::kHasCudnn) {
    if (may_use_cudnn(device, options) &&
        cuda::cudnn_attention_forward(qkv, options, out, log_sum_exp))
      return;
  }
  dispatch<cpu::attention_forward, cuda::attention_forward, meta::attention_forward>(
      device, qkv, options, out, log_sum_exp);
}

void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv,
                        Tensor dposition_bias, Tensor dkey_values) {
  const OpRange range("attention_backward");
  constexpr const char* kOp = "attention_backward";
  check_forward_tensors(kOp, qkv, options, out, log_sum_exp);
  require_shape(dout, out.shape(), kOp, "dout");
  require_dtype(dout, qkv.dtype(), kOp, "dout");
  require_shape(dqkv, qkv.shape(), kOp, "dqkv");
  require_dtype(dqkv, qkv.dtype(), kOp, "dqkv");
  for (const Tensor* tensor : {&dout, &qkv, &out, &log_sum_exp}) {
    require_disjoint(dqkv, "dqkv", *tensor, "an input", kOp);
  }
  require(dkey_values.defined() == options.memory.defined(),
          "{}: dkey_values is for options.memory, and must be given with it", kOp);
  if (dkey_values.defined()) {
    require_like(dkey_values, options.memory.key_values, kOp, "dkey_values");
    for (const Tensor* tensor : {&dout, &qkv, &out, &log_sum_exp, &options.memory.key_values,
                                 static_cast<const Tensor*>(&dqkv)}) {
      require_disjoint(dkey_values, "dkey_values", *tensor, "another tensor", kOp);
    }
    require_disjoint(dqkv, "dqkv", options.memory.key_values, "an input", kOp);
  }
  if (dposition_bias.defined()) {
    require(options.position_bias.defined(),
            "{}: dposition_bias is given, but there is no position_bias", kOp);
    require_like(dposition_bias, options.position_bias, kOp, "dposition_bias");
    require_disjoint(dposition_bias, "dposition_bias", options.position_bias, "an input", kOp);
  }
  const Device device = attention_device(kOp, options, dout, qkv, out, log_sum_exp, dqkv,
                                         dposition_bias, dkey_values);
  if constexpr (cuda::kHasCudnn) {
    if (may_use_cudnn(device, options) &&
        cuda::cudnn_attention_backward(dout, qkv, out, log_sum_exp, options, dqkv)) {
      return;
    }
  }
  dispatch<cpu::attention_backward, cuda::attention_backward, meta::attention_backward>(
      device, dout, qkv, out, log_sum_exp, options, dqkv, dposition_bias, dkey_values);
}

void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights) {
  constexpr const char* kOp = "attention_weights";
  const OpRange range(kOp);
  const int64_t heads = require_qkv(qkv, options, kOp);
  require_log_sum_exp(log_sum_exp, qkv, heads, kOp);
  const int64_t keys = options.memory.defined() ? options.memory.key_values.dim(1) : qkv.dim(1);
  require_shape(weights, {qkv.dim(0), heads, qkv.dim(1), keys}, kOp, "weights");
  require_dtype(weights, DType::f32, kOp, "weights");
  require_attention_options(qkv, options, kOp);
  const Device device = attention_device(kOp, options, qkv, log_sum_exp, weights);
  dispatch<cpu::attention_weights, cuda::attention_weights, meta::attention_weights>(
      device, qkv, log_sum_exp, options, weights);
}

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionOptions& options, Tensor out) {
  constexpr const char* kOp = "attention_decode";
  const OpRange range(kOp);
  const AttentionMask& mask = options.mask;
  const Tensor& position_bias = options.position_bias;
  require(q.defined() && q.shape().rank() == 3, "{}: q must have shape (B, Hl, D), but is {}", kOp,
          describe(q));
  require(keys.defined() && keys.shape().rank() == 4 && keys.dim(0) == q.dim(0) &&
              keys.dim(3) == q.dim(2) &&
              (keys.dim(1) == 0 ? q.dim(1) == 0 : q.dim(1) % keys.dim(1) == 0),
          "{}: keys must have shape (B, Kl, capacity, D), with a Kl that divides Hl, for q {}, but "
          "are {}",
          kOp, describe(q), describe(keys));
  require_shape(values, keys.shape(), kOp, "values");
  require_shape(out, q.shape(), kOp, "out");
  for (const Tensor* tensor : {&keys, &values, static_cast<const Tensor*>(&out)}) {
    require_dtype(*tensor, q.dtype(), kOp, "keys, values and out");
  }
  require(length >= 1 && length <= keys.dim(2), "{}: {} positions of a cache of {}", kOp, length,
          keys.dim(2));
  if (const auto reason = attention_decode_unsupported_reason(kinds_of(mask))) {
    fail("{}: {}", kOp, *reason);
  }
  require_positions(mask, kOp);
  if (position_bias.defined()) require_position_bias(position_bias, q.dim(1), length, kOp);
  require_decoded_planes(options, q.dim(1), length, kOp);
  const Device device =
      common_device(kOp, q, keys, values, position_bias, mask.hidden, mask.additive, out);
  dispatch<cpu::attention_decode, cuda::attention_decode, meta::attention_decode>(
      device, q, keys, values, length, options, out);
}

}  // namespace tessera
