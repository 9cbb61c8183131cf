#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/checked.h"
#include "core/deterministic.h"
#include "core/ops/attention.h"
#include "core/ops/cuda/attention/cudnn_layouts.h"

/// Which attention cuDNN computes, as far as this is known without cuDNN.
namespace tessera::cuda {

/// The facts about a layer's attention that are known before there is data.
struct AttentionSetup {
  MaskKinds mask;
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  bool dropout = false;
  bool position_bias = false;
  bool positions = false;  ///< queries are some of the tokens (AttentionMemory::positions)
};

/// Why cuDNN's attention does not support this setup; none if it does.
inline std::optional<std::string> cudnn_attention_unsupported_reason(const AttentionSetup& setup) {
  const MaskKinds& mask = setup.mask;
  if (setup.positions) return "cuDNN's attention does not support queries of context ranks";
  if (setup.dtype != DType::bf16) {
    return fmt::format("cuDNN's attention supports bf16, not {}", to_string(setup.dtype));
  }
  if (setup.head_dim % 8 != 0 || setup.head_dim < 8 || setup.head_dim > 128) {
    return fmt::format(
        "cuDNN's attention supports head sizes that are multiples of 8 up to 128, not {}",
        setup.head_dim);
  }
  if (setup.dropout && !cudnn_dropout_allowed()) {
    return "cuDNN would drop other weights than a CPU does (train.cudnn_dropout allows it)";
  }
  MaskKinds others = mask;
  others.documents = others.lengths = others.causal = others.window = others.compact = false;
  if (others != MaskKinds{}) {
    // cuDNN supports biases. But its documentation does not define fully masked rows, which such a
    // mask allows anywhere, and it would round fp32 biases to bf16.
    return fmt::format(
        "cuDNN's attention supports documents, lengths, causal and window masks, but the mask is: "
        "{}",
        to_string(mask));
  }
  if (setup.position_bias) {
    // It would have to be a (H, T, T) plane, rounded to bf16.
    return "cuDNN's attention has no position bias that is a function of the distance";
  }
  // A plan pays off for shapes that recur; prompts have any length.
  if (!mask.documents && !mask.lengths) {
    return "cuDNN's attention is for batches of documents, or with lengths";
  }
  return std::nullopt;
}

/// The setup of one call.
inline AttentionSetup setup_of(const Tensor& qkv, const AttentionOptions& options) {
  AttentionSetup setup;
  setup.mask = kinds_of(options.mask);
  setup.dtype = qkv.dtype();
  setup.head_dim = qkv.dim(3);
  setup.dropout = options.dropout.active();
  setup.position_bias = options.position_bias.defined();
  return setup;
}

/// Identifies an execution plan of cuDNN: `documents` sequences of `length` rows or, if ragged, at
/// most that many of at most that length, one after the other in at most `rows` rows. If padded,
/// cuDNN gets the number of queries and keys of each document. A batch may need several calls.
struct AttentionPlanKey {
  int64_t documents, length, rows;
  int64_t heads, kv_heads, head_dim;
  int64_t window;
  float scale;
  bool causal, ragged, backward, padded = false;
  bool deterministic = false;  ///< gradients; out is always
  float dropout = 0.0f;        ///< the probability

  /// Elements of a position of qkv.
  int64_t qkv_row() const { return (heads + 2 * kv_heads) * head_dim; }

  bool operator==(const AttentionPlanKey&) const = default;
};

struct AttentionPlanKeyHash {
  size_t operator()(const AttentionPlanKey& key) const {
    size_t hash = 0;
    for (const int64_t part :
         {key.documents, key.length, key.rows, key.heads, key.kv_heads, key.head_dim, key.window,
          int64_t{std::bit_cast<int32_t>(key.scale)}, int64_t{std::bit_cast<int32_t>(key.dropout)},
          int64_t{key.causal} | int64_t{key.ragged} << 1 | int64_t{key.backward} << 2 |
              int64_t{key.padded} << 3 | int64_t{key.deterministic} << 4}) {
      hash = (hash ^ static_cast<size_t>(part)) * 0x9e3779b97f4a7c15u + (hash >> 29);
    }
    return hash;
  }
};

/// `count`, rounded up by at most a quarter so that there are few distinct results: those up to 8,
/// and four per doubling above.
inline int64_t rounded_count(int64_t count) {
  if (count <= 8) return count;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
  return round_up(count, below / 4);
}

/// The largest number of documents per call: deterministic gradients on Hopper need two bytes of
/// scratch per pair of positions, which must stay below a limit.
inline int64_t most_documents(const AttentionPlanKey& key) {
  constexpr int64_t kMostScratchBytes = int64_t{512} << 20;
  const int64_t document_bytes = 2 * key.heads * key.length * key.length;
  return key.deterministic ? std::max<int64_t>(kMostScratchBytes / document_bytes, 1)
                           : key.documents;
}

/// The number of documents per call for `count` documents of one length, the same for all calls:
/// `most`, or the next smaller number with which the next call's statistics are aligned to 16
/// bytes, as cuDNN may assume. If there is none, all.
inline int64_t dense_documents(const AttentionPlanKey& key, int64_t count, int64_t most) {
  for (int64_t documents = most; documents > 0 && most < count; --documents) {
    const int64_t numbers = documents * key.heads * key.length;
    if (count % documents == 0 && numbers % 4 == 0) return documents;
  }
  return count;
}

/// The number of documents of a batch and their length, 0 if lengths differ. Without documents each
/// sequence is one.
struct BatchDocuments {
  int64_t count, length;

  BatchDocuments(const Tensor& qkv, const AttentionMask& mask)
      : count(mask.documents.defined() ? mask.documents.numel() - 1 : qkv.dim(0)),
        length(mask.documents.defined() ? mask.document_length : qkv.dim(1)) {}
};

/// Whether to pass lengths to cuDNN that exclude nothing. Without lengths, its gradients of
/// documents whose length is no multiple of 128 read out of bounds in a replayed graph before
/// 9.15.1 (release notes of cudnn-frontend 1.16), and are NaN on Hopper, up to 9.30, for queries
/// whose log-sum-exp is below −88 (its pull request 628).
inline bool is_padded_to_be_safe(int64_t document_length, bool backward) {
  return backward && document_length % 128 != 0;
}

/// The plan for qkv (B, T, Hl + 2 Kl, D) with supported options. Compiling a plan takes long, so
/// documents of different lengths, in any number, share few plans.
inline AttentionPlanKey attention_plan_key(const Tensor& qkv, const AttentionOptions& options,
                                           bool backward) {
  const AttentionMask& mask = options.mask;
  const BatchDocuments documents(qkv, mask);
  const int64_t rows = qkv.dim(0) * qkv.dim(1);
  AttentionPlanKey key{};
  const AttentionHeads heads = attention_heads(qkv, options);
  key.heads = heads.queries, key.kv_heads = heads.key_values, key.head_dim = qkv.dim(3);
  key.window = mask.window, key.causal = mask.causal;
  key.scale = options.scale;
  key.backward = backward;
  if (options.dropout.active()) key.dropout = options.dropout.probability;
  // cuDNN draws dropout by the place of a document within its call, so both passes need the same
  // calls.
  const bool as_backward = backward || key.dropout > 0.0f;
  key.deterministic = as_backward && deterministic_algorithms();
  key.ragged = documents.length == 0;
  key.padded = mask.lengths.defined() || is_padded_to_be_safe(documents.length, as_backward);
  if (key.ragged) {
    const int64_t longest =
        options.padded_rows.index.defined() ? options.padded_rows.seq_length : qkv.dim(1);
    key.documents = rounded_count(documents.count);
    key.length = longest;
    key.documents = std::min(key.documents, most_documents(key));
    key.rows = rounded_count(rows);
  } else {
    key.documents = documents.count;
    key.length = documents.length;
    key.documents = dense_documents(key, key.documents, most_documents(key));
    key.rows = key.documents * key.length;
  }
  return key;
}

/// Whether all element offsets in qkv fit into cuDNN's 32 bits.
inline bool offsets_fit(const AttentionPlanKey& key) {
  return key.rows * key.qkv_row() <= std::numeric_limits<int32_t>::max();
}

/// How the documents of a batch are divided into calls of a plan.
struct AttentionCalls {
  int64_t count, rows;

  AttentionCalls(const AttentionPlanKey& key, const Tensor& qkv, const AttentionMask& mask)
      : count(ceil_div(BatchDocuments(qkv, mask).count, key.documents)),
        rows(qkv.dim(0) * qkv.dim(1)) {}
};

/// The parts of a batch's scratch, in bytes: the workspace of the plan at 0, then cuDNN's
/// statistics, five tables of documents and, with dropout, the seeds of each call.
struct AttentionScratch {
  size_t statistics, tables, table_bytes, seeds, bytes;

  AttentionScratch(size_t plan_bytes, const AttentionPlanKey& key, const AttentionCalls& calls) {
    constexpr int kTables = 5;
    const auto aligned = [](size_t part) { return (part + 255) / 256 * 256; };
    DocumentTables of_key{};
    of_key.documents = key.documents;
    statistics = aligned(plan_bytes);
    tables = statistics + aligned(sizeof(float) * static_cast<size_t>(calls.rows * key.heads));
    table_bytes = aligned(sizeof(int32_t) * static_cast<size_t>(calls.count * of_key.stride()));
    seeds = tables + kTables * table_bytes;
    const auto seed_bytes = sizeof(int64_t) * static_cast<size_t>(calls.count * kSeedStride);
    bytes = seeds + (key.dropout > 0.0f ? aligned(seed_bytes) : 0);
  }
};

/// Above this workspace of a plan our own kernels, which need none, are better: documents are then
/// so long that most_documents() is 1.
inline constexpr size_t kMostPlanBytes = size_t{1} << 30;

/// The scratch of a batch like qkv, as far as it is known without cuDNN; 0 if cuDNN does not
/// support it. On Hopper, gradients need two bytes for each pair of positions if deterministic,
/// otherwise sums of the query gradients in fp32; and with grouped queries, the gradients of keys
/// and values of all heads before they are summed.
inline size_t estimated_cudnn_workspace(const Tensor& qkv, const AttentionOptions& options,
                                        bool backward) {
  if (qkv.numel() == 0 || cudnn_attention_unsupported_reason(setup_of(qkv, options))) return 0;
  const AttentionPlanKey key = attention_plan_key(qkv, options, backward);
  if (!offsets_fit(key)) return 0;
  const int64_t length = round_up(key.length, 64);
  const int64_t of_pairs = 2 * key.documents * length * round_up(key.length, 128);
  const int64_t of_rows = 4 * (1 + key.head_dim) * (key.ragged ? key.rows : key.documents * length);
  const int64_t of_head = key.deterministic ? of_pairs : of_rows;
  const int64_t of_groups =
      key.kv_heads == key.heads ? 0 : 2 * 2 * key.head_dim * key.documents * length;
  const auto plan_bytes = static_cast<size_t>(backward ? key.heads * (of_head + of_groups) : 0);
  if (plan_bytes > kMostPlanBytes) return 0;
  return AttentionScratch(plan_bytes, key, {key, qkv, options.mask}).bytes;
}

}  // namespace tessera::cuda
