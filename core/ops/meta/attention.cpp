#include <algorithm>

#include "core/masks/visible_keys.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/decoded_keys.h"
#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/workspace_log.h"

namespace tessera::meta {
namespace {

/// The pairs of a query and a key that it sees, in a document of `length` rows, rounded down if the
/// mask has more than causal and window.
double visible_pairs(double length, const AttentionMask& mask) {
  if (mask.prefix > 0 || mask.global_tokens > 0 || mask.dilation > 1) {
    double pairs = 0.0;
    const auto rows = static_cast<int64_t>(length);
    for (int64_t t = 0; t < rows; ++t) pairs += static_cast<double>(visible_keys(t, rows, mask));
    return pairs;
  }
  // Diagonal d of the `reach` diagonals from the main one on has length − d pairs.
  const double reach =
      mask.window > 0 ? std::min(length, static_cast<double>(mask.window)) : length;
  const double one_way = reach * length - reach * (reach - 1.0) / 2.0;
  return mask.causal ? one_way : 2.0 * one_way - length;
}

/// The pairs of all heads of a batch. A dry run does not know the lengths of documents that differ:
/// it counts equal ones, which have the fewest pairs. Nor does it know what other masks hide, so
/// that counts as visible.
double visible_pairs(const Tensor& qkv, const AttentionOptions& options) {
  const AttentionMask& mask = options.mask;
  const auto rows = static_cast<double>(qkv.dim(0) * qkv.dim(1));
  double documents = static_cast<double>(qkv.dim(0));
  if (mask.documents.defined()) documents = static_cast<double>(mask.documents.numel() - 1);
  if (rows == 0.0 || documents == 0.0) return 0.0;
  const auto heads = static_cast<double>(attention_heads(qkv, options).queries);
  if (!options.memory.defined()) {
    return heads * documents * visible_pairs(rows / documents, mask);
  }
  const auto keys = static_cast<double>(options.memory.key_values.dim(1));
  if (!options.memory.positions.defined()) return heads * rows * keys / documents;
  // Context ranks have equal shares of the pairs.
  return heads * rows / keys * documents * visible_pairs(keys / documents, mask);
}

/// Products and other FLOPs: attention in fp32 never uses tensor cores.
OpWork flops_of(DType dtype, double products, double others) {
  if (dtype == DType::f32) return {.flops = products + others};
  return {.matmul_flops = products, .flops = others};
}

void add_products(OpWork& work, DType dtype, double products) {
  (dtype == DType::f32 ? work.flops : work.matmul_flops) += products;
}

/// Bytes of `hidden` or `additive`: the planes of `heads` heads of this rank. By position,
/// documents that share a plane count once.
double bytes_of_plane(const Tensor& plane, int64_t heads, const AttentionOptions& options) {
  const int dim = is_by_position(plane) ? 0 : 1;
  const bool has_planes_of_heads =
      plane.defined() && plane.shape().rank() > 2 && plane.dim(dim) > 1;
  const double share = has_planes_of_heads
                           ? static_cast<double>(heads) / static_cast<double>(options.total_heads)
                           : 1.0;
  return share * bytes_of(plane);
}

double bytes_of_mask(const AttentionOptions& options, int64_t heads) {
  const AttentionMask& mask = options.mask;
  const AttentionMemory& memory = options.memory;
  return bytes_of(memory.documents, memory.padded_rows.index, memory.positions, mask.lengths,
                  mask.hidden_keys, mask.documents, options.padded_rows.index,
                  options.position_bias) +
         bytes_of_plane(mask.hidden, heads, options) +
         bytes_of_plane(mask.additive, heads, options);
}

/// FLOPs that add the position bias to `pairs` scores.
double flops_of_bias(double pairs, const AttentionOptions& options) {
  return options.position_bias.defined() ? pairs : 0.0;
}

/// Logs the workspace that cuDNN needs, or may need if there is no GPU to ask.
void log_cudnn_workspace(const Tensor& qkv, const AttentionOptions& options, bool backward) {
  const WorkspaceLog* log = WorkspaceLog::current();
  if (log == nullptr || qkv.numel() == 0 || options.memory.defined()) return;
  if (!log->has_gpu()) {
    log_workspace(cuda::estimated_cudnn_workspace(qkv, options, backward));
  } else if constexpr (cuda::kHasCudnn) {
    log_workspace(cuda::cudnn_attention_workspace(qkv, options, backward));
  }
}

}  // namespace

// Two products of 2 D FLOPs per pair. The softmax scales, subtracts the maximum, takes exp and adds
// to the maximum and to the sum; the sum of each row then divides the output.
void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp) {
  const double pairs = visible_pairs(qkv, options);
  OpWork work = flops_of(qkv.dtype(), 4.0 * pairs * static_cast<double>(qkv.dim(3)),
                         5.0 * pairs + flops_of_bias(pairs, options) + elements_of(out));
  work.bytes_read = bytes_of(qkv, options.memory.key_values) + bytes_of_mask(options, out.dim(2));
  work.bytes_written = bytes_of(out, log_sum_exp);
  log_work(work);
  log_cudnn_workspace(qkv, options, /*backward=*/false);
}

// Five products: the scores again, the gradients of weights, queries, keys and values. Per pair the
// weight (3) and the gradient of its score (3); per output its product with dout.
void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv,
                        Tensor dposition_bias, Tensor dkey_values) {
  const double pairs = visible_pairs(qkv, options);
  OpWork work = flops_of(qkv.dtype(), 10.0 * pairs * static_cast<double>(qkv.dim(3)),
                         6.0 * pairs + flops_of_bias(pairs, options) + 2.0 * elements_of(out));
  work.bytes_read = bytes_of(dout, qkv, options.memory.key_values, out, log_sum_exp) +
                    bytes_of_mask(options, out.dim(2));
  work.bytes_written = bytes_of(dqkv, dkey_values);
  size_t scratch = cuda::attention_backward_scratch(log_sum_exp.numel());
  if (dposition_bias.defined()) {
    // On a GPU, the scores and the gradients of their weights once more.
    add_products(work, qkv.dtype(), 4.0 * pairs * static_cast<double>(qkv.dim(3)));
    work.flops += 7.0 * pairs;
    work.bytes_read += bytes_of(dout, qkv, dposition_bias);
    work.bytes_written += bytes_of(dposition_bias);
    scratch += cuda::position_bias_scratch(out.dim(2), (dposition_bias.dim(1) + 1) / 2);
  }
  log_work(work);
  log_workspace(scratch);
  log_cudnn_workspace(qkv, options, /*backward=*/true);
}

void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights) {
  const double pairs = visible_pairs(qkv, options);
  OpWork work = flops_of(qkv.dtype(), 2.0 * pairs * static_cast<double>(qkv.dim(3)),
                         3.0 * pairs + flops_of_bias(pairs, options));
  const auto heads = static_cast<double>(qkv.dim(2));
  const auto values = static_cast<double>(attention_heads(qkv, options).key_values);
  const Tensor& memory = options.memory.key_values;
  const double used = heads == 0.0 || memory.defined() ? 1.0 : (heads - values) / heads;
  work.bytes_read = used * bytes_of(qkv) + 0.5 * bytes_of(memory) + bytes_of(log_sum_exp) +
                    bytes_of_mask(options, weights.dim(1));
  work.bytes_written = bytes_of(weights);
  log_work(work);
}

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionOptions& options, Tensor out) {
  const AttentionMask& mask = options.mask;
  const int64_t visible = decoded_keys(mask, length).count();
  const double share = static_cast<double>(visible) / static_cast<double>(keys.dim(2));
  const double per_score =
      5.0 + (options.position_bias.defined() ? 1.0 : 0.0) + (mask.additive.defined() ? 1.0 : 0.0);
  const auto bytes_of_row = [&](const Tensor& plane) {  // of the newest position
    return plane.defined()
               ? bytes_of_plane(plane, q.dim(1), options) * static_cast<double>(visible) /
                     static_cast<double>(plane.dim(1) * plane.dim(2))
               : 0.0;
  };
  OpWork work =
      flops_of(q.dtype(), 4.0 * static_cast<double>(visible) * elements_of(q),
               per_score * static_cast<double>(visible * q.dim(0) * q.dim(1)) + elements_of(out));
  work.bytes_read = bytes_of(q) + share * bytes_of(keys, values) + bytes_of(options.position_bias) +
                    bytes_of_row(mask.hidden) + bytes_of_row(mask.additive);
  work.bytes_written = bytes_of(out);
  log_work(work);
}

}  // namespace tessera::meta
