#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "core/checked.h"
#include "core/cuda/philox.h"
#include "core/ops/attention.h"
#include "core/ops/cuda/dropout_rng.h"

namespace tessera::cuda {

/// `hidden` or `additive` of a mask, in any of its shapes.
template <typename T>
struct MaskPlane {
  const T* data = nullptr;  ///< for this rank's head 0; nullptr if the mask has no such part
  int64_t batch_stride = 0, head_stride = 0;
  int length = 0;  ///< R of a plane by position, which AttentionForm::pattern and runs read; else 0
};

/// Arguments of attention kernels, passed by value: extents, parts of the mask, and dropout.
/// Tensors are on the GPU; the host knows only their shapes.
struct AttentionArguments {
  int batch, seq, heads, kv_heads, in_group, d;
  int keys;                                 ///< of a sequence; `seq` unless there is a memory
  int64_t q_stride, kv_stride, out_stride;  ///< elements between positions
  bool aligned;  ///< whether rows of heads start at multiples of 16 bytes
  float scale;

  bool causal;
  int window;
  // Read by AttentionForm::pattern and runs only.
  int dilation, window_reach;  ///< keys within the window are less than the reach apart
  int prefix, global_tokens;   ///< as in AttentionMask; no global tokens without a window
  const int32_t* lengths;
  const uint8_t* hidden_keys;
  const int32_t* documents;
  int document_count;
  const int32_t* key_documents;  ///< of an AttentionMemory, otherwise nullptr
  const int32_t* positions;      ///< AttentionMemory::positions, read by AttentionForm::runs only
  MaskPlane<uint8_t> hidden;
  MaskPlane<float> additive;

  bool drops;
  uint32_t drop_threshold;  ///< of a random byte
  float drop_factor;        ///< scales the kept weights
  RandomKey drop_key;
  PhiloxRounds drop_rounds{0};  ///< of its seed
  DropoutRng dropout_rng;
  int64_t first_head, total_heads;
  const int32_t* places;
  int place_seq;  ///< positions per sequence in dropout's indices
  const int32_t* key_places;
  int key_place_seq;

  const float* position_bias;  ///< of head 0 and distance 0; nullptr if there is none
  int64_t position_bias_stride;
  int reach;  ///< positions are less than this apart, as far as the host knows
};

namespace detail {

template <typename T>
MaskPlane<T> mask_plane(const Tensor& plane, const AttentionOptions& options) {
  if (!plane.defined()) return {};
  const int64_t square = plane.dim(-1) * plane.dim(-1);
  if (is_by_position(plane)) {
    const int64_t of_head = plane.dim(0) == 1 ? 0 : square;
    return {plane.data<T>() + options.first_head * of_head, 0, of_head, narrow<int>(plane.dim(1))};
  }
  if (plane.shape().rank() == 2) return {plane.data<T>(), 0, 0};
  // With one head the last two shapes are equivalent.
  if (plane.dim(1) == 1) return {plane.data<T>(), square, 0};
  return {plane.data<T>() + options.first_head * square, options.total_heads * square, square};
}

template <typename T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace detail

/// The largest head size that kernels have tiles for.
inline constexpr int64_t kMaxHeadColumns = 256;

/// The base addresses of a head's queries and of its keys, which are in a tensor of their own
/// (AttentionMemory) or follow the queries of a row.
template <typename T>
struct AttentionRows {
  T *q, *kv;

  AttentionRows(const AttentionArguments& a, const Tensor& qkv, const Tensor& key_values)
      : q(qkv.data<std::remove_const_t<T>>()),
        kv(key_values.defined() ? key_values.data<std::remove_const_t<T>>()
                                : q + int64_t{a.heads} * a.d) {}
};

/// `rows` are the tensors whose head rows the kernels load or store; undefined ones are left out.
inline AttentionArguments attention_arguments(const Tensor& qkv, const AttentionOptions& options,
                                              std::initializer_list<const Tensor*> rows) {
  const AttentionMask& mask = options.mask;
  const int64_t d = qkv.dim(3);
  require(
      d <= kMaxHeadColumns,
      "attention on a GPU supports heads of up to {} columns, but these have {}: choose more heads",
      kMaxHeadColumns, d);
  const AttentionHeads heads = attention_heads(qkv, options);
  AttentionArguments a = {};
  a.batch = narrow<int>(qkv.dim(0));
  a.seq = narrow<int>(qkv.dim(1));
  a.heads = narrow<int>(heads.queries);
  a.kv_heads = narrow<int>(heads.key_values);
  a.in_group = narrow<int>(heads.in_group());
  a.d = narrow<int>(d);
  const AttentionMemory& memory = options.memory;
  a.keys = memory.defined() ? narrow<int>(memory.key_values.dim(1)) : a.seq;
  a.q_stride = qkv.dim(2) * d;
  a.kv_stride = memory.defined() ? 2 * heads.key_values * d : a.q_stride;
  a.out_stride = heads.queries * d;
  a.aligned = static_cast<size_t>(a.d) * size_of(qkv.dtype()) % 16 == 0;
  for (const Tensor* tensor : rows) {
    if (!tensor->defined()) continue;
    a.aligned = a.aligned && reinterpret_cast<uintptr_t>(tensor->raw()) % 16 == 0;
  }
  a.scale = options.scale;

  a.causal = mask.causal;
  const int64_t keys = a.keys;
  a.window = static_cast<int>(std::min(mask.window, keys));
  a.dilation = static_cast<int>(std::min(mask.dilation, std::max<int64_t>(keys, 1)));
  const int64_t reach = a.window == 0 ? 0 : int64_t{a.window - 1} * a.dilation + 1;
  a.window_reach = static_cast<int>(std::min(reach, keys));
  a.prefix = static_cast<int>(std::min(mask.prefix, keys));
  a.global_tokens = a.window == 0 ? 0 : static_cast<int>(std::min(mask.global_tokens, keys));
  a.lengths = detail::data_or_null<int32_t>(mask.lengths);
  a.hidden_keys = detail::data_or_null<uint8_t>(mask.hidden_keys);
  a.documents = detail::data_or_null<int32_t>(mask.documents);
  a.document_count = a.documents == nullptr ? 0 : narrow<int>(mask.documents.numel() - 1);
  a.key_documents = detail::data_or_null<int32_t>(memory.documents);
  a.positions = detail::data_or_null<int32_t>(memory.positions);
  a.hidden = detail::mask_plane<uint8_t>(mask.hidden, options);
  a.additive = detail::mask_plane<float>(mask.additive, options);

  if (const Tensor& bias = options.position_bias; bias.defined()) {
    a.position_bias_stride = bias.dim(1);
    a.reach = narrow<int>(std::min(keys, (bias.dim(1) + 1) / 2));
    a.position_bias = bias.data<float>() + bias.dim(1) / 2;
  }

  a.drops = options.dropout.active();
  const WeightDropout dropout = weight_dropout(options.dropout);
  a.drop_threshold = dropout.threshold;
  a.drop_factor = dropout.scale;
  a.drop_key = options.dropout.key;
  a.drop_rounds = PhiloxRounds(a.drop_key.seed);
  a.dropout_rng = rng_of(options.dropout);
  a.first_head = options.first_head;
  a.total_heads = options.total_heads;
  a.places = detail::data_or_null<int32_t>(options.padded_rows.index);
  a.place_seq = a.places == nullptr ? a.seq : narrow<int>(options.padded_rows.seq_length);
  a.key_places = detail::data_or_null<int32_t>(memory.padded_rows.index);
  a.key_place_seq = a.key_places == nullptr ? a.keys : narrow<int>(memory.padded_rows.seq_length);
  return a;
}

/// The forms of a kernel, compiled apart so that a position bias, keys of another tensor, a mask
/// with a prefix, global tokens, dilation or planes by position (`pattern`), and queries that are
/// runs of tokens (`runs`, AttentionMemory::positions) cost registers only where they are used.
/// Cross-attention has no position bias; `pattern` and `runs` may have one, and `runs` all that
/// `pattern` has.
enum class AttentionForm : uint8_t { plain, bias, cross, pattern, runs };

/// Whether keys and values are those of an AttentionMemory.
constexpr bool has_memory(AttentionForm form) {
  return form == AttentionForm::cross || form == AttentionForm::runs;
}

inline bool has_pattern(const AttentionArguments& a) {
  return a.prefix > 0 || a.global_tokens > 0 || (a.window > 0 && a.dilation > 1) ||
         a.hidden.length > 0 || a.additive.length > 0;
}

/// Calls body.operator()<kForm>().
template <typename Body>
void dispatch_form(const AttentionArguments& a, const Body& body) {
  if (a.positions != nullptr) return body.template operator()<AttentionForm::runs>();
  if (a.key_documents != nullptr) return body.template operator()<AttentionForm::cross>();
  if (has_pattern(a)) return body.template operator()<AttentionForm::pattern>();
  if (a.position_bias != nullptr) return body.template operator()<AttentionForm::bias>();
  body.template operator()<AttentionForm::plain>();
}

}  // namespace tessera::cuda
