#include "launch/data/loading/batch_buffers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/ops/cross_entropy.h"

namespace tessera {
namespace {

/// Returns B × T. Throws if the batch is too large.
int64_t checked_capacity(const BatchShape& shape) {
  const int64_t sequences = shape.sequences, seq_length = shape.seq_length;
  const int64_t source_length = shape.source_length;
  require(sequences >= 1 && seq_length >= 1,
          "a batch of {} sequences of {} tokens: both must be at least 1", sequences, seq_length);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  require(sequences <= kMost / std::max(seq_length, source_length),
          "a rank would hold {} sequences of {} tokens at once, but at most {} tokens are allowed: "
          "choose a smaller batch.global or more data ranks, and a smaller batch.micro (of a "
          "command, --micro-batch)",
          sequences, std::max(seq_length, source_length), kMost);
  require(shape.patch_width <= std::numeric_limits<int64_t>::max() / 8 / (sequences * seq_length),
          "a rank would hold {} images of {} patches of {} numbers at once, which do not fit in "
          "memory: choose a smaller batch.global or more data ranks, and a smaller batch.micro (of "
          "a command, --micro-batch)",
          sequences, seq_length, shape.patch_width);
  return sequences * seq_length;
}

std::optional<std::string> find_wrong_source(const Sample& sample, int64_t source_length) {
  const size_t n = sample.source_tokens.size();
  if (n > static_cast<size_t>(source_length)) {
    return fmt::format("its source has {} tokens, but the model reads up to {}", n, source_length);
  }
  if (source_length == 0 && sample.source_lengths.empty()) return std::nullopt;
  const size_t documents = sample.document_lengths.size();
  if (sample.source_lengths.size() != documents) {
    return fmt::format("it has {} sources for {} documents", sample.source_lengths.size(),
                       documents);
  }
  int64_t sum = 0;
  for (const int32_t length : sample.source_lengths) {
    if (length < 1) return fmt::format("a source has {} tokens, but needs at least 1", length);
    sum += length;
  }
  if (sum != static_cast<int64_t>(n)) {
    return fmt::format("its sources have {} tokens together, but it has {}", sum, n);
  }
  return std::nullopt;
}

/// Returns the problem with the sizes of a sample's parts, or an empty string.
std::optional<std::string> find_wrong_size(const Sample& sample, const BatchShape& shape) {
  const size_t n = sample.tokens.size();
  if (n > static_cast<size_t>(shape.seq_length)) {
    return fmt::format("it has {} tokens, but seq_length is {}", n, shape.seq_length);
  }
  if (sample.targets.size() != n) {
    return fmt::format("it has {} targets for {} tokens", sample.targets.size(), n);
  }
  if (!sample.token_types.empty() && sample.token_types.size() != n) {
    return fmt::format("it has {} token types for {} tokens", sample.token_types.size(), n);
  }
  const size_t documents = sample.document_lengths.size();
  if (!sample.labels.empty() && sample.labels.size() != documents) {
    return fmt::format("it has {} labels for {} documents", sample.labels.size(), documents);
  }
  if (shape.label_width > 0 && documents != 1) {
    return fmt::format("it has {} documents, but each row must be one", documents);
  }
  if (sample.patches.size() != n * static_cast<size_t>(shape.patch_width)) {
    return fmt::format("its patches have {} numbers, but {} tokens need {} each",
                       sample.patches.size(), n, shape.patch_width);
  }
  if (std::ssize(sample.label_values) != shape.label_width) {
    return fmt::format("it has {} label values, but the model predicts {}",
                       sample.label_values.size(), shape.label_width);
  }
  int64_t sum = 0;
  for (const int32_t length : sample.document_lengths) {
    if (length < 1) return fmt::format("a document has {} tokens, but needs at least 1", length);
    sum += length;
  }
  if (sum != static_cast<int64_t>(n)) {
    return fmt::format("its documents have {} tokens together, but it has {}", sum, n);
  }
  return find_wrong_source(sample, shape.source_length);
}

/// Returns a message about the first of `values` that is neither in [0, limit) nor `exception`, or
/// nullopt.
std::optional<std::string> find_outside(std::span<const int32_t> values, int64_t limit,
                                        int32_t exception, std::string_view what) {
  const auto found = std::ranges::find_if(
      values, [&](int32_t v) { return (v < 0 || v >= limit) && v != exception; });
  if (found == values.end()) return std::nullopt;
  return fmt::format("{} {} is {}, but must be 0 to {}", what, found - values.begin(), *found,
                     limit - 1);
}

std::optional<std::string> find_problem(const Sample& sample, const BatchShape& shape,
                                        int64_t vocab_size) {
  constexpr int64_t kAny = int64_t{std::numeric_limits<int32_t>::max()} + 1;
  if (auto problem = find_wrong_size(sample, shape)) return problem;
  // Tokens have no exception: 0 is within the vocabulary.
  if (auto problem = find_outside(sample.tokens, vocab_size, 0, "token")) return problem;
  if (auto problem = find_outside(sample.source_tokens, vocab_size, 0, "source token")) {
    return problem;
  }
  if (auto problem = find_outside(sample.targets, vocab_size, kIgnoreTarget, "target")) {
    return problem;
  }
  if (auto problem = find_outside(sample.token_types, kAny, 0, "token type")) return problem;
  return find_outside(sample.labels, kAny, kIgnoreTarget, "label");
}

}  // namespace

BatchShape batch_shape(int64_t sequences, const ModelTraits& traits) {
  BatchShape shape{sequences, traits.row_length};
  shape.label_width = traits.label_width;
  shape.patch_width = traits.patch_width;
  shape.source_length = traits.source_length;
  shape.prefix = traits.attention_prefix;
  return shape;
}

BatchShape batch_shape(int64_t sequences, const ModelConfig& model, const MaskingOptions& mlm) {
  const ModelTraits traits = traits_of(model);
  BatchShape shape = batch_shape(sequences, traits);
  shape.hides_targets = traits.objective == Objective::masked_lm && mlm.hide == MaskHide::attention;
  return shape;
}

BatchBuffers::BatchBuffers(const BatchShape& shape, Device for_device)
    : shape_(shape), datasets_(static_cast<size_t>(shape.sequences)), uploaded_(for_device) {
  const int64_t capacity = checked_capacity(shape);
  const MemoryKind kind = for_device.is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary;
  for (OwnedTensor* tensor :
       {&tokens_, &positions_, &token_types_, &padded_rows_, &target_rows_, &targets_, &labels_}) {
    *tensor = OwnedTensor({capacity}, DType::i32, kCpu, kind);
  }
  if (shape.hides_targets) hidden_ = OwnedTensor({capacity}, DType::u8, kCpu, kind);
  if (shape.repeats_sizes) {
    padded_target_rows_ = OwnedTensor({capacity}, DType::i32, kCpu, kind);
    padded_targets_ = OwnedTensor({capacity}, DType::i32, kCpu, kind);
  }
  documents_ = OwnedTensor({capacity + 1}, DType::i32, kCpu, kind);
  if (shape.patch_width > 0) {
    patches_ = OwnedTensor({capacity, shape.patch_width}, DType::f32, kCpu, kind);
  }
  label_values_ = OwnedTensor({shape.label_width == 0 ? 0 : shape.sequences, shape.label_width},
                              DType::f32, kCpu, kind);
  if (shape.context.ranks > 1) cut_.emplace(full_batch_on_meta(shape), shape.context, for_device);
  if (shape.source_length == 0) return;
  for (OwnedTensor* tensor : {&source_tokens_, &source_positions_, &source_padded_rows_}) {
    *tensor = OwnedTensor({shape.sequences * shape.source_length}, DType::i32, kCpu, kind);
  }
  source_documents_ = OwnedTensor({capacity + 1}, DType::i32, kCpu, kind);
}

size_t BatchBuffers::bytes() const {
  size_t sum = cut_ ? cut_->bytes() : 0;
  for (const OwnedTensor* tensor :
       {&tokens_, &positions_, &token_types_, &padded_rows_, &documents_, &target_rows_, &targets_,
        &labels_, &patches_, &label_values_, &hidden_, &source_tokens_, &source_positions_,
        &source_padded_rows_, &source_documents_, &padded_target_rows_, &padded_targets_}) {
    sum += tensor->buffer.bytes();
  }
  return sum;
}

void BatchBuffers::clear() {
  uploaded_.wait();
  num_rows_ = num_tokens_ = num_documents_ = num_targets_ = document_length_ = 0;
  num_source_tokens_ = 0;
}

void BatchBuffers::append(const Sample& sample, int64_t vocab_size, std::string_view dataset,
                          int64_t number) {
  require(num_rows_ < sequences(), "{}: sample {} does not fit: the batch has {} rows", dataset,
          number, sequences());
  if (const auto problem = find_problem(sample, shape_, vocab_size)) {
    fail("{}: sample {} cannot be used: {}", dataset, number, *problem);
  }

  if (shape_.source_length > 0) append_source(sample);
  const size_t n = sample.tokens.size(), first = static_cast<size_t>(num_tokens_);
  std::ranges::copy(sample.tokens, tokens_.tensor.span<int32_t>().subspan(first).begin());
  const std::span<int32_t> types = token_types_.tensor.span<int32_t>().subspan(first, n);
  std::ranges::fill(types, 0);
  std::ranges::copy(sample.token_types, types.begin());

  if (shape_.patch_width > 0) {
    std::ranges::copy(sample.patches,
                      patches_.tensor.data<float>() + num_tokens_ * shape_.patch_width);
  }
  std::ranges::copy(sample.label_values,
                    label_values_.tensor.data<float>() + num_documents_ * shape_.label_width);
  int32_t* positions = positions_.tensor.data<int32_t>() + first;
  int32_t* documents = documents_.tensor.data<int32_t>();
  int32_t* labels = labels_.tensor.data<int32_t>();
  auto end = static_cast<int32_t>(num_tokens_);
  for (size_t d = 0; d < sample.document_lengths.size(); ++d) {
    const int32_t length = sample.document_lengths[d];
    for (int32_t i = 0; i < length; ++i) *positions++ = i;
    const bool alike = num_documents_ == 0 || length == document_length_;
    document_length_ = alike ? length : 0;
    labels[num_documents_] = sample.labels.empty() ? kIgnoreTarget : sample.labels[d];
    documents[++num_documents_] = end += length;
  }

  int32_t* padded_rows = padded_rows_.tensor.data<int32_t>() + first;
  int32_t* target_rows = target_rows_.tensor.data<int32_t>();
  int32_t* targets = targets_.tensor.data<int32_t>();
  for (size_t i = 0; i < n; ++i) {
    padded_rows[i] = static_cast<int32_t>(num_rows_ * seq_length() + static_cast<int64_t>(i));
    const bool is_seen = positions_.tensor.data<int32_t>()[first + i] < shape_.prefix - 1;
    const bool has_target = sample.targets[i] != kIgnoreTarget && !is_seen;
    if (shape_.hides_targets) hidden_.tensor.data<uint8_t>()[first + i] = has_target ? 1 : 0;
    if (!has_target) continue;
    target_rows[num_targets_] = static_cast<int32_t>(first + i);
    targets[num_targets_++] = sample.targets[i];
  }
  num_tokens_ = end;
  datasets_[static_cast<size_t>(num_rows_++)] = sample.dataset;
}

// Before the documents are counted.
void BatchBuffers::append_source(const Sample& sample) {
  const int64_t first = num_source_tokens_;
  int32_t* tokens = source_tokens_.tensor.data<int32_t>() + first;
  int32_t* positions = source_positions_.tensor.data<int32_t>() + first;
  int32_t* padded_rows = source_padded_rows_.tensor.data<int32_t>() + first;
  int32_t* documents = source_documents_.tensor.data<int32_t>() + num_documents_;
  std::ranges::copy(sample.source_tokens, tokens);
  std::iota(padded_rows, padded_rows + sample.source_tokens.size(),
            static_cast<int32_t>(num_rows_ * shape_.source_length));
  auto end = static_cast<int32_t>(first);
  *documents++ = end;
  for (const int32_t length : sample.source_lengths) {
    std::iota(positions, positions + length, 0);
    positions += length;
    *documents++ = end += length;
  }
  num_source_tokens_ = end;
}

void BatchBuffers::append_empty() {
  require(num_rows_ < sequences(), "there is no room for a row: the batch has {}", sequences());
  datasets_[static_cast<size_t>(num_rows_++)] = 0;
}

void BatchBuffers::finish() {
  if (cut_) cut_->cut(whole());
}

TokenBatch BatchBuffers::whole() const {
  TokenBatch batch;
  batch.sequences = sequences();
  batch.seq_length = seq_length();
  batch.tokens = tokens_.tensor.slice(0, num_tokens_);
  batch.positions = positions_.tensor.slice(0, num_tokens_);
  batch.token_types = token_types_.tensor.slice(0, num_tokens_);
  batch.padded_rows = padded_rows_.tensor.slice(0, num_tokens_);
  batch.documents = documents_.tensor.slice(0, num_documents_ + 1);
  batch.document_length = document_length_;
  batch.target_rows = target_rows_.tensor.slice(0, num_targets_);
  batch.targets = targets_.tensor.slice(0, num_targets_);
  if (shape_.hides_targets) batch.hidden = hidden_.tensor.slice(0, num_tokens_);
  batch.labels = labels_.tensor.slice(0, num_documents_);
  if (shape_.patch_width > 0) batch.patches = patches_.tensor.slice(0, num_tokens_);
  batch.label_values = label_values_.tensor.slice(0, shape_.label_width == 0 ? 0 : num_documents_);
  if (shape_.source_length == 0) return batch;
  batch.source.seq_length = shape_.source_length;
  batch.source.tokens = source_tokens_.tensor.slice(0, num_source_tokens_);
  batch.source.positions = source_positions_.tensor.slice(0, num_source_tokens_);
  batch.source.padded_rows = source_padded_rows_.tensor.slice(0, num_source_tokens_);
  batch.source.documents = source_documents_.tensor.slice(0, num_documents_ + 1);
  return batch;
}

TokenBatch BatchBuffers::padded_batch() {
  TokenBatch padded = batch();
  if (!shape_.repeats_sizes) return padded;
  const BatchSizes sizes = padded_sizes({num_tokens_, num_documents_, num_targets_}, sequences(),
                                        seq_length(), /*uniform=*/document_length_ != 0);
  append_padding(sizes);
  padded.tokens = tokens_.tensor.slice(0, sizes.tokens);
  padded.positions = positions_.tensor.slice(0, sizes.tokens);
  padded.token_types = token_types_.tensor.slice(0, sizes.tokens);
  padded.padded_rows = padded_rows_.tensor.slice(0, sizes.tokens);
  padded.documents = documents_.tensor.slice(0, sizes.documents + 1);
  padded.target_rows = padded_target_rows_.tensor.slice(0, sizes.targets);
  padded.targets = padded_targets_.tensor.slice(0, sizes.targets);
  if (shape_.hides_targets) padded.hidden = hidden_.tensor.slice(0, sizes.tokens);
  padded.labels = labels_.tensor.slice(0, sizes.documents);
  return padded;
}

void BatchBuffers::append_padding(const BatchSizes& sizes) {
  const Range rows = {num_tokens_, sizes.tokens};
  const auto added = [&rows](const OwnedTensor& of) {
    return of.tensor.span<int32_t>().subspan(static_cast<size_t>(rows.begin),
                                             static_cast<size_t>(rows.size()));
  };
  std::ranges::fill(added(tokens_), 0);
  std::ranges::fill(added(token_types_), 0);
  if (shape_.hides_targets) {
    std::fill_n(hidden_.tensor.data<uint8_t>() + rows.begin, rows.size(), uint8_t{0});
  }
  int32_t* positions = positions_.tensor.data<int32_t>();
  int32_t* padded_rows = padded_rows_.tensor.data<int32_t>();
  const int64_t count = sizes.documents - num_documents_;
  for (int64_t d = 0; d < count; ++d) {
    const int64_t begin = rows.begin + d * rows.size() / count;
    const int64_t end = rows.begin + (d + 1) * rows.size() / count;
    std::iota(positions + begin, positions + end, 0);
    std::iota(padded_rows + begin, padded_rows + end,
              static_cast<int32_t>(d % sequences() * seq_length()));
    documents_.tensor.data<int32_t>()[num_documents_ + d + 1] = static_cast<int32_t>(end);
    labels_.tensor.data<int32_t>()[num_documents_ + d] = kIgnoreTarget;
  }
  // In ascending order, from the last row on: the last rows without a target get one to ignore.
  const int32_t* real_rows = target_rows_.tensor.data<int32_t>();
  const int32_t* real = targets_.tensor.data<int32_t>();
  int32_t* target_rows = padded_target_rows_.tensor.data<int32_t>();
  int32_t* targets = padded_targets_.tensor.data<int32_t>();
  int64_t left = num_targets_;
  for (int64_t row = sizes.tokens - 1, to = sizes.targets; to > left; --row) {
    const bool has_target = left > 0 && real_rows[left - 1] == row;
    targets[--to] = has_target ? real[--left] : kIgnoreTarget;
    target_rows[to] = static_cast<int32_t>(row);
  }
  std::copy_n(real_rows, left, target_rows);
  std::copy_n(real, left, targets);
}

TokenBatch full_batch_on_meta(const BatchShape& shape) {
  const int64_t capacity = checked_capacity(shape);
  const Tensor all(nullptr, {capacity}, DType::i32, kMeta);
  TokenBatch batch;
  batch.sequences = shape.sequences;
  batch.seq_length = shape.seq_length;
  batch.tokens = batch.positions = batch.token_types = batch.padded_rows = all;
  batch.documents = Tensor(nullptr, {capacity + 1}, DType::i32, kMeta);
  batch.target_rows = batch.targets = batch.labels = all;
  if (shape.patch_width > 0) {
    batch.patches = Tensor(nullptr, {capacity, shape.patch_width}, DType::f32, kMeta);
  }
  if (shape.hides_targets) batch.hidden = Tensor(nullptr, {capacity}, DType::u8, kMeta);
  batch.label_values =
      Tensor(nullptr, {shape.label_width == 0 ? 0 : shape.sequences, shape.label_width}, DType::f32,
             kMeta);
  if (shape.source_length == 0) return batch;
  SourceTokens& source = batch.source;
  source.seq_length = shape.source_length;
  source.tokens = source.positions = source.padded_rows =
      Tensor(nullptr, {shape.sequences * shape.source_length}, DType::i32, kMeta);
  source.documents = batch.documents;
  return batch;
}

void keep_documents(TokenBatch& batch, int64_t count) {
  batch.documents = batch.documents.slice(0, count + 1);
  batch.labels = batch.labels.slice(0, count);
  if (Tensor& sources = batch.source.documents; sources.defined()) {
    sources = sources.slice(0, count + 1);
  }
}

}  // namespace tessera
