#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>

#include "core/checked.h"
#include "core/ops/attention.h"

/// Which attention cuDNN does, as far as it can be said without cuDNN.
namespace tessera::cuda {

/// What of a layer's attention is known before there is any data.
struct AttentionSetup {
  MaskKinds mask;
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  bool dropout = false;
};

/// Why cuDNN's attention is not for this, or "" if it is.
inline std::string cudnn_attention_why_not(const AttentionSetup& setup) {
  const MaskKinds& mask = setup.mask;
  if (setup.dtype != DType::bf16) {
    return fmt::format("cuDNN's attention takes bf16, not {}", to_string(setup.dtype));
  }
  if (setup.head_dim % 8 != 0 || setup.head_dim < 8 || setup.head_dim > 128) {
    return fmt::format(
        "cuDNN's attention takes heads of a multiple of 8 and at most 128 features, not {}",
        setup.head_dim);
  }
  if (setup.dropout) return "cuDNN would drop other weights than a CPU does";
  if (mask.hidden_keys || mask.hidden || mask.additive) {
    // It has engines for biases. But its documentation has no word on rows that see nothing, which
    // such a mask may leave anywhere, and biases of fp32 it would take rounded to bf16.
    return fmt::format(
        "cuDNN's attention takes documents, lengths, causal and window, but the mask is: {}",
        to_string(mask));
  }
  // A plan is worth making for shapes that come again; prompts have any length.
  if (!mask.documents && !mask.lengths) {
    return "cuDNN's attention is for batches of documents, or with lengths";
  }
  return "";
}

/// One of cuDNN's execution plans: `documents` sequences of `length` rows, or, if ragged, up to as
/// many of up to that length, one after the other in at most `rows` rows. If padded, cuDNN is
/// told how many of a document's rows are queries, and keys. A batch may need several calls of it.
struct AttentionPlanKey {
  int64_t documents, length, rows;
  int64_t heads, head_dim;
  int64_t window;
  float scale;
  bool causal, ragged, backward, padded = false;

  bool operator==(const AttentionPlanKey&) const = default;
};

struct AttentionPlanKeyHash {
  size_t operator()(const AttentionPlanKey& key) const {
    size_t hash = 0;
    for (const int64_t part : {key.documents, key.length, key.rows, key.heads, key.head_dim,
                               key.window, int64_t{std::bit_cast<int32_t>(key.scale)},
                               int64_t{key.causal} | int64_t{key.ragged} << 1 |
                                   int64_t{key.backward} << 2 | int64_t{key.padded} << 3}) {
      hash = (hash ^ static_cast<size_t>(part)) * 0x9e3779b97f4a7c15u + (hash >> 29);
    }
    return hash;
  }
};

/// `count` or up to a quarter more, such that there are few different results: those up to 8, and
/// four for each doubling above.
inline int64_t rounded_count(int64_t count) {
  if (count <= 8) return count;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
  return round_up(count, below / 4);
}

/// How many documents a call may have: a deterministic backward pass on Hopper needs scratch of two
/// bytes for each pair of positions, which is to stay below a limit.
inline int64_t most_documents(const AttentionPlanKey& key) {
  constexpr int64_t kMostScratchBytes = int64_t{512} << 20;
  const int64_t document_bytes = 2 * key.heads * key.length * key.length;
  return key.backward ? std::max<int64_t>(kMostScratchBytes / document_bytes, 1) : key.documents;
}

/// Of `count` documents of one length, how many a call gets, which all get as many: `most`, or the
/// next fewer after which the next call's statistics are aligned to 16 bytes, as cuDNN may take
/// them to be. If there is no such number, all.
inline int64_t dense_documents(const AttentionPlanKey& key, int64_t count, int64_t most) {
  for (int64_t documents = most; documents > 0 && most < count; --documents) {
    const int64_t numbers = documents * key.heads * key.length;
    if (count % documents == 0 && numbers % 4 == 0) return documents;
  }
  return count;
}

/// How many documents a batch has, and the rows of each, 0 if they differ. Without documents each
/// of its sequences is one.
struct BatchDocuments {
  int64_t count, length;

  BatchDocuments(const Tensor& qkv, const AttentionMask& mask)
      : count(mask.documents.defined() ? mask.documents.numel() - 1 : qkv.dim(0)),
        length(mask.documents.defined() ? mask.document_length : qkv.dim(1)) {}
};

/// Whether cuDNN is told of lengths that leave out nothing. Without any its gradients of documents
/// of no multiple of 128 rows read beyond their memory in a replayed graph before 9.15.1 (release
/// notes of cudnn-frontend 1.16), and are NaN on Hopper, up to 9.30, for queries whose log-sum-exp
/// is below −88 (its pull request 628).
inline bool is_padded_to_be_safe(int64_t document_length, bool backward) {
  return backward && document_length % 128 != 0;
}

/// The plan for qkv (B, T, 3, Hl, D) with options that cudnn_attention_why_not() has nothing to say
/// of. Making a plan takes long, so documents of different lengths, of which a batch has any number
/// with any sum, share few plans.
inline AttentionPlanKey attention_plan_key(const Tensor& qkv, const AttentionOptions& options,
                                           bool backward) {
  const AttentionMask& mask = options.mask;
  const BatchDocuments documents(qkv, mask);
  const int64_t rows = qkv.dim(0) * qkv.dim(1);
  AttentionPlanKey key{};
  key.heads = qkv.dim(3), key.head_dim = qkv.dim(4);
  key.window = mask.window, key.causal = mask.causal;
  key.scale = options.scale;
  key.backward = backward;
  key.ragged = documents.length == 0;
  key.padded = mask.lengths.defined() || is_padded_to_be_safe(documents.length, backward);
  if (key.ragged) {
    const int64_t longest =
        options.places.padded.defined() ? options.places.seq_length : qkv.dim(1);
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

/// Whether all offsets of elements within qkv fit into cuDNN's 32 bits.
inline bool offsets_fit(const AttentionPlanKey& key) {
  return key.rows * 3 * key.heads * key.head_dim <= std::numeric_limits<int32_t>::max();
}

}  // namespace tessera::cuda
