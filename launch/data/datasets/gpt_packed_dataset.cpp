#include "launch/data/datasets/gpt_packed_dataset.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

constexpr int64_t kLastTokens = 1;  // of a document; they are never inputs

int64_t checked_row_length(int64_t seq_length) {
  require(seq_length >= 1, "seq_length is {}, but must be at least 1", seq_length);
  return seq_length;
}

}  // namespace

GptPackedDataset::GptPackedDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                                   int64_t seq_length)
    : seq_length_(checked_row_length(seq_length)),
      pieces_(std::move(dataset), tokens, seq_length, kLastTokens),
      rows_(pack_rows(pieces_.lengths(), seq_length)) {}

void GptPackedDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  const IndexedDataset& dataset = pieces_.dataset();
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          dataset.prefix(), sample, num_samples());
  out.clear();
  for (const int64_t piece : rows_.row(sample)) {
    const Range inputs = pieces_.piece(piece);
    const size_t begin = out.tokens.size(), size = static_cast<size_t>(inputs.size());
    out.tokens.resize(begin + size);
    out.targets.resize(begin + size);
    const std::span<int32_t> tokens = std::span(out.tokens).subspan(begin);
    const std::span<int32_t> targets = std::span(out.targets).subspan(begin);
    dataset.read_tokens(inputs.begin, tokens);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    dataset.read_tokens(inputs.end, targets.last(1));
    out.document_lengths.push_back(static_cast<int32_t>(size));
  }
}

std::vector<TextOrigin> GptPackedDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  std::vector<TextOrigin> origins;
  for (const int64_t piece : rows_.row(sample)) {
    origins.push_back(pieces_.origin(piece, std::ssize(origins)));
  }
  return origins;
}

void GptPackedDataset::will_fill(int64_t sample, int64_t /*epoch*/) const {
  for (const int64_t piece : rows_.row(sample)) {
    const Range inputs = pieces_.piece(piece);
    pieces_.dataset().will_read_tokens(inputs.begin, inputs.size() + kLastTokens);
  }
}

}  // namespace tessera
