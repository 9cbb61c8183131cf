#include "launch/data/datasets/bert_dataset.h"

#include <utility>

#include "core/error.h"
#include "launch/data/datasets/bert_pair_dataset.h"

namespace tessera {
namespace {

constexpr int64_t kSpecials = 2;  // [CLS] and [SEP]

int64_t checked_length(int64_t seq_length) {
  require(seq_length > kSpecials,
          "seq_length is {}, but must be at least {}: [CLS], one token and [SEP]", seq_length,
          kSpecials + 1);
  return seq_length;
}

}  // namespace

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                         int64_t seq_length, const VocabularyTraits& traits,
                         const MaskingOptions& masking, bool packing, uint64_t seed)
    : seq_length_(checked_length(seq_length)),
      pieces_(std::move(dataset), tokens, seq_length - kSpecials),
      masking_(traits, masking, seed),
      packing_(packing) {
  if (packing) rows_ = pack_rows(pieces_.lengths(kSpecials), seq_length);
}

int64_t BertDataset::num_samples() const { return packing_ ? rows_.num_rows() : num_pieces(); }

void BertDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          pieces_.dataset().prefix(), sample, num_samples());
  out.clear();
  if (!packing_) {
    append_piece(sample, epoch, out);
    return;
  }
  for (const int64_t piece : rows_.row(sample)) append_piece(piece, epoch, out);
}

void BertDataset::will_fill(int64_t sample, int64_t /*epoch*/) const {
  const auto will_read = [&](int64_t piece) {
    const Range text = piece_tokens(piece);
    pieces_.dataset().will_read_tokens(text.begin, text.size());
  };
  if (!packing_) return will_read(sample);
  for (const int64_t piece : rows_.row(sample)) will_read(piece);
}

std::vector<TextOrigin> BertDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  if (!packing_) return {pieces_.origin(sample, 0)};
  std::vector<TextOrigin> origins;
  for (const int64_t piece : rows_.row(sample)) {
    origins.push_back(pieces_.origin(piece, std::ssize(origins)));
  }
  return origins;
}

void BertDataset::append_piece(int64_t piece, int64_t epoch, Sample& out) const {
  const Range text = piece_tokens(piece);
  const size_t begin = out.tokens.size(), size = static_cast<size_t>(text.size() + kSpecials);
  out.tokens.resize(begin + size);
  out.targets.resize(begin + size);
  const std::span<int32_t> tokens = std::span(out.tokens).subspan(begin);
  tokens.front() = *masking_.traits().special.start;
  pieces_.dataset().read_tokens(text.begin, tokens.subspan(1, size - kSpecials));
  tokens.back() = *masking_.traits().special.end;
  out.document_lengths.push_back(static_cast<int32_t>(size));
  masking_.apply(piece, epoch, static_cast<int64_t>(begin), static_cast<int64_t>(begin + size),
                 out);
}

std::shared_ptr<const Dataset> make_bert_dataset(std::shared_ptr<const IndexedDataset> dataset,
                                                 Range tokens, int64_t seq_length,
                                                 const VocabularyTraits& traits,
                                                 const BertDataOptions& options, uint64_t seed) {
  if (!options.sentence_pairs) {
    return std::make_shared<const BertDataset>(std::move(dataset), tokens, seq_length, traits,
                                               options.masking, options.packing, seed);
  }
  require(!options.packing,
          "sentence pairs cannot be packed, because their lengths change with each epoch: turn "
          "packing off; padding costs no computation");
  return std::make_shared<const BertPairDataset>(std::move(dataset), tokens, seq_length, traits,
                                                 options, seed);
}

}  // namespace tessera
