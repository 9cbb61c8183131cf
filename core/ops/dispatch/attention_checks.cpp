#include "core/ops/dispatch/attention_checks.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"

namespace tessera {
namespace {

bool readable(const Tensor& tensor) { return tensor.device().is_cpu(); }

void require_lengths(const Tensor& lengths, int64_t batch, int64_t seq, const char* op) {
  require_shape(lengths, {batch}, op, "mask.lengths");
  require_dtype(lengths, DType::i32, op, "mask.lengths");
  if (!readable(lengths)) return;
  const auto values = lengths.span<int32_t>();
  for (size_t b = 0; b < values.size(); ++b) {
    require(0 <= values[b] && values[b] <= seq,
            "{}: mask.lengths[{}] is {}, but must be within the {} positions of a sequence", op, b,
            values[b], seq);
  }
}

/// documents ascends from 0 to `rows`.
void require_ascending(const Tensor& documents, const char* name, int64_t rows, const char* op) {
  if (!readable(documents)) return;
  const auto ends = documents.span<int32_t>();
  require(ends.front() == 0 && ends.back() == rows,
          "{}: {} must begin with 0 and end with the {} rows, but goes from {} to {}", op, name,
          rows, ends.front(), ends.back());
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    require(ends[i] <= ends[i + 1], "{}: {} must ascend, but {}[{}] is {} and [{}] is {}", op, name,
            name, i, ends[i], i + 1, ends[i + 1]);
  }
}

void require_documents(const AttentionMask& mask, int64_t batch, int64_t seq, const char* op) {
  const Tensor& documents = mask.documents;
  require_dtype(documents, DType::i32, op, "mask.documents");
  require(documents.shape().rank() == 1 && documents.numel() >= 1,
          "{}: mask.documents must have shape (S + 1) for S documents, but is {}", op,
          describe(documents));
  const int64_t length = mask.document_length, count = documents.numel() - 1;
  require(length == 0 || (length > 0 && count * length == batch * seq),
          "{}: mask.document_length is {}, but must be 0 or that of all {} documents of {} rows",
          op, length, count, batch * seq);
  if (!readable(documents)) return;
  const auto ends = documents.span<int32_t>();
  require(ends.front() == 0 && ends.back() == batch * seq,
          "{}: mask.documents must begin with 0 and end with the {} rows of {} sequences of {}, "
          "but goes from {} to {}",
          op, batch * seq, batch, seq, ends.front(), ends.back());
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    require(ends[i] <= ends[i + 1],
            "{}: mask.documents must ascend, but mask.documents[{}] is {} and [{}] is {}", op, i,
            ends[i], i + 1, ends[i + 1]);
    require(ends[i] == ends[i + 1] || ends[i] / seq == (ends[i + 1] - 1) / seq,
            "{}: document {} of mask.documents, rows {} to {}, reaches over the end of a sequence "
            "of {} positions; let it end there, and another begin",
            op, i, ends[i], ends[i + 1], seq);
    require(length == 0 || ends[i + 1] - ends[i] == length,
            "{}: mask.document_length is {}, but document {} has {} rows", op, length, i,
            ends[i + 1] - ends[i]);
  }
}

/// The keys of a padded sequence: positions that planes and tables of biases must cover.
int64_t positions_of_keys(const Tensor& qkv, const AttentionOptions& options) {
  const AttentionMemory& memory = options.memory;
  const PaddedRows& padded = memory.defined() ? memory.padded_rows : options.padded_rows;
  if (padded.index.defined()) return padded.seq_length;
  return memory.defined() ? memory.key_values.dim(1) : qkv.dim(1);
}

/// `hidden` or `additive`, which may be by position.
void require_plane(const Tensor& plane, DType dtype, const char* name, const Tensor& qkv,
                   const AttentionOptions& options, const char* op) {
  const int64_t batch = qkv.dim(0), seq = qkv.dim(1), total_heads = options.total_heads;
  require_dtype(plane, dtype, op, name);
  if (is_by_position(plane)) {
    return require_position_plane(plane, name, total_heads, positions_of_keys(qkv, options), op);
  }
  const Shape accepted[] = {{seq, seq}, {batch, 1, seq, seq}, {batch, total_heads, seq, seq}};
  for (const Shape& shape : accepted) {
    if (plane.shape() == shape) return;
  }
  fail(
      "{}: {} {} does not fit qkv {} with {} heads on all ranks: it must be (T, T) = {}, "
      "(B, 1, T, T) = {} or (B, H, T, T) = {} or, by position, (1, R, R) or (H, R, R)",
      op, name, describe(plane), describe(qkv), total_heads, to_string(accepted[0]),
      to_string(accepted[1]), to_string(accepted[2]));
}

/// The rows of a document are consecutive or, with `gaps`, ascend.
void require_padded_rows(const PaddedRows& padded_rows, const Tensor& documents, bool gaps,
                         int64_t rows, const char* op) {
  require_shape(padded_rows.index, {rows}, op, "padded_rows.index");
  require_dtype(padded_rows.index, DType::i32, op, "padded_rows.index");
  require(padded_rows.seq_length >= 1 || rows == 0,
          "{}: padded_rows.seq_length must be that of the padded sequences, but is {}", op,
          padded_rows.seq_length);
  if (!readable(padded_rows.index) || !readable(documents)) return;
  const int32_t* index = padded_rows.index.data<int32_t>();
  const auto ends = documents.span<int32_t>();
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    for (int32_t row = ends[i]; row < ends[i + 1]; ++row) {
      const int64_t begin = index[ends[i]], least = begin + row - ends[i];
      const bool ascends = row == ends[i] || index[row] > index[row - 1];
      require(begin >= 0 && ascends && (gaps || index[row] == least) &&
                  index[row] / padded_rows.seq_length == begin / padded_rows.seq_length,
              "{}: padded_rows.index[{}] is {}: the rows of document {} must {} in one sequence of "
              "{} positions, from {} on",
              op, row, index[row], i, gaps ? "ascend" : "be consecutive", padded_rows.seq_length,
              begin);
    }
  }
}

/// The positions of a memory, whose documents have been checked, as the mask's have.
void require_memory_positions(const AttentionOptions& options, const char* op) {
  const AttentionMemory& memory = options.memory;
  if (!readable(memory.positions)) return;
  const auto ends = options.mask.documents.span<int32_t>();
  const auto key_ends = memory.documents.span<int32_t>();
  const auto positions = memory.positions.span<int32_t>();
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    int32_t least = 0;
    for (auto row = static_cast<size_t>(ends[i]); row < static_cast<size_t>(ends[i + 1]); ++row) {
      require(positions[row] >= least && positions[row] < key_ends[i + 1] - key_ends[i],
              "{}: memory.positions[{}] is {}, but must ascend within document {}, which has {} "
              "keys",
              op, row, positions[row], i, key_ends[i + 1] - key_ends[i]);
      least = positions[row] + 1;
    }
  }
}

}  // namespace

// These lists name what is supported, so that a new kind of mask is refused until it is added.
std::optional<std::string> attention_unsupported_reason(const MaskKinds& kinds) {
  MaskKinds others = kinds;
  others.causal = others.window = others.documents = others.compact = false;
  others.dilation = others.prefix = others.global_tokens = others.hidden_keys = false;
  others.hidden_by_position = others.additive_by_position = false;
  if (!kinds.compact) {
    others.lengths = others.hidden = others.additive = false;
    if (others == MaskKinds{}) return std::nullopt;
    return fmt::format("attention does not support the mask: {}", to_string(others));
  }
  if (!kinds.documents) {
    return fmt::format(
        "attention without padding (padded_rows) needs mask.documents, which say where a "
        "sequence ends, but the mask is: {}",
        to_string(kinds));
  }
  if (others != MaskKinds{}) {
    return fmt::format(
        "attention without padding (padded_rows) supports documents, causal, window, dilation, "
        "prefix, global_tokens, hidden_keys, hidden_by_position and additive_by_position, but the "
        "mask is: {}; lengths, hidden and additive need batches with padding",
        to_string(kinds));
  }
  return std::nullopt;
}

std::optional<std::string> attention_decode_unsupported_reason(const MaskKinds& kinds) {
  MaskKinds others = kinds;
  others.causal = others.window = others.dilation = others.prefix = others.global_tokens = false;
  others.hidden_by_position = others.additive_by_position = false;
  if (others == MaskKinds{}) return std::nullopt;
  return fmt::format(
      "attention_decode, which extends a text by one token, supports causal, window, dilation, "
      "prefix, global_tokens, hidden_by_position and additive_by_position, but the mask is: {}",
      to_string(kinds));
}

void require_attention_memory(const Tensor& q, const AttentionOptions& options, const char* op) {
  const AttentionMemory& memory = options.memory;
  const Tensor& kv = memory.key_values;
  require(kv.shape().rank() == 4 && kv.dim(0) == 1 && kv.dim(2) % 2 == 0 && kv.dim(3) == q.dim(3) &&
              (options.kv_heads == 0 || kv.dim(2) == 2 * options.kv_heads) &&
              (kv.dim(2) == 0 ? q.dim(2) == 0 : q.dim(2) % (kv.dim(2) / 2) == 0),
          "{}: memory.key_values must have shape (1, Ns, 2 Kl, D), with a Kl that divides Hl, for "
          "queries {}, but is {}",
          op, describe(q), describe(kv));
  require_dtype(kv, q.dtype(), op, "memory.key_values");
  require(q.dim(0) == 1, "{}: queries with a memory are one sequence, B = 1, but their shape is {}",
          op, describe(q));
  if (memory.positions.defined()) {
    require_shape(memory.positions, {q.dim(1)}, op, "memory.positions");
    require_dtype(memory.positions, DType::i32, op, "memory.positions");
  } else {
    MaskKinds documents;
    documents.documents = true;
    require(kinds_of(options.mask) == documents,
            "{}: cross-attention supports only documents as mask, but the mask is: {}", op,
            to_string(kinds_of(options.mask)));
    require(!options.position_bias.defined(),
            "{}: position_bias depends on distances within a text, so cross-attention has none",
            op);
  }
  require(options.mask.documents.defined(), "{}: with a memory, mask.documents must be given", op);
  require(memory.documents.defined(), "{}: memory.documents is not given", op);
  require_shape(memory.documents, options.mask.documents.shape(), op, "memory.documents");
  require_dtype(memory.documents, DType::i32, op, "memory.documents");
  require_ascending(memory.documents, "memory.documents", kv.dim(1), op);
  if (memory.padded_rows.index.defined()) {
    require_padded_rows(memory.padded_rows, memory.documents, /*gaps=*/false, kv.dim(1), op);
  }
}

void require_positions(const AttentionMask& mask, const char* op) {
  const auto not_negative = [&](int64_t value, const char* name) {
    require(value >= 0, "{}: {} must be 0 (none) or positive, but is {}", op, name, value);
  };
  not_negative(mask.window, "mask.window");
  not_negative(mask.prefix, "mask.prefix");
  not_negative(mask.global_tokens, "mask.global_tokens");
  require(mask.dilation >= 1, "{}: mask.dilation must be 1 (none) or more, but is {}", op,
          mask.dilation);
}

void require_attention_options(const Tensor& qkv, const AttentionOptions& options, const char* op) {
  const int64_t batch = qkv.dim(0), seq = qkv.dim(1);
  const int64_t heads = attention_heads(qkv, options).queries;
  const AttentionMask& mask = options.mask;
  require(options.first_head >= 0 && options.first_head + heads <= options.total_heads,
          "{}: heads [{}, {}) of this rank are not within the {} heads of all ranks", op,
          options.first_head, options.first_head + heads, options.total_heads);
  require_positions(mask, op);
  MaskKinds kinds = kinds_of(mask);
  kinds.compact = options.padded_rows.index.defined() || options.memory.positions.defined();
  if (const auto reason = attention_unsupported_reason(kinds)) fail("{}: {}", op, *reason);
  require(!kinds.compact || batch == 1,
          "{}: without padding (padded_rows) all rows are one sequence, B = 1, but qkv is {}", op,
          describe(qkv));
  if (kinds.lengths) require_lengths(mask.lengths, batch, seq, op);
  if (kinds.hidden_keys) {
    const int64_t keys = options.memory.defined() ? options.memory.key_values.dim(1) : seq;
    require_shape(mask.hidden_keys, {batch, keys}, op, "mask.hidden_keys");
    require_dtype(mask.hidden_keys, DType::u8, op, "mask.hidden_keys");
  }
  if (kinds.documents) require_documents(mask, batch, seq, op);
  if (options.memory.positions.defined()) require_memory_positions(options, op);
  if (mask.hidden.defined()) {
    require_plane(mask.hidden, DType::u8, "mask.hidden", qkv, options, op);
  }
  if (mask.additive.defined()) {
    require_plane(mask.additive, DType::f32, "mask.additive", qkv, options, op);
  }
  if (options.padded_rows.index.defined()) {
    const bool gaps = options.memory.defined();  // of a context rank
    require_padded_rows(options.padded_rows, mask.documents, gaps, seq, op);
  }
  if (options.position_bias.defined()) {
    require_position_bias(options.position_bias, heads, positions_of_keys(qkv, options), op);
  }
  const double probability = options.dropout.probability;
  require(0.0 <= probability && probability < 1.0,
          "{}: dropout.probability must be in [0, 1), but is {}", op, probability);
  if (const auto reason = weight_dropout_unsupported_reason(probability)) {
    fail("{}: dropout.probability is {}, but {}", op, probability, *reason);
  }
  if (options.dropout.rng_offset.defined()) {
    require_shape(options.dropout.rng_offset, {2}, op, "dropout.rng_offset");
    require_dtype(options.dropout.rng_offset, DType::i64, op, "dropout.rng_offset");
  }
}

void require_position_plane(const Tensor& plane, const char* name, int64_t total_heads,
                            int64_t length, const char* op) {
  const int64_t planes = plane.dim(0), size = plane.dim(1);
  require((planes == 1 || planes == total_heads) && size == plane.dim(2) && size >= length,
          "{}: {} by position must be (1, R, R) or (H, R, R), with the {} heads of all ranks and "
          "an R of at least the {} positions of a sequence, but is {}",
          op, name, total_heads, length, describe(plane));
}

void require_position_bias(const Tensor& table, int64_t heads, int64_t length, const char* op) {
  require_dtype(table, DType::f32, op, "position_bias");
  require(table.shape().rank() == 2 && table.dim(0) == heads && table.dim(1) % 2 == 1 &&
              table.dim(1) >= 2 * length - 1,
          "{}: position_bias must have shape (Hl, 2R - 1) with {} heads and an R of at least {}, "
          "because positions are up to {} apart, but is {}",
          op, heads, length, length - 1, describe(table));
}

}  // namespace tessera
