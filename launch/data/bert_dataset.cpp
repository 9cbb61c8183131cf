#include "launch/data/bert_dataset.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/bert_pair_dataset.h"

namespace tessera {
namespace {

constexpr int64_t kSpecials = 2;  // [CLS] and [SEP]

}  // namespace

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                         int64_t seq_length, const VocabularyTraits& traits,
                         const MaskingOptions& masking, bool packing, uint64_t seed)
    : dataset_(std::move(dataset)),
      range_(tokens),
      seq_length_(seq_length),
      masking_(traits, masking, seed),
      packing_(packing) {
  require(seq_length > kSpecials,
          "seq_length is {}, but must be at least {}: [CLS], one token and [SEP]", seq_length,
          kSpecials + 1);
  require(0 <= tokens.begin && tokens.begin <= tokens.end && tokens.end <= dataset_->num_tokens(),
          "{}: tokens [{}, {}) are not within the dataset, which has {}", dataset_->prefix(),
          tokens.begin, tokens.end, dataset_->num_tokens());
  require(!tokens.empty(),
          "{}: tokens [{}, {}) are none, but at least one is needed: use more text",
          dataset_->prefix(), tokens.begin, tokens.end);

  first_document_ = dataset_->document_at(tokens.begin);
  const int64_t last_document = dataset_->document_at(tokens.end - 1);
  first_piece_.push_back(0);
  for (int64_t document = first_document_; document <= last_document; ++document) {
    const int64_t pieces = ceil_div(tokens_of(document).size(), seq_length - kSpecials);
    first_piece_.push_back(first_piece_.back() + pieces);
  }
  if (!packing) return;
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(num_pieces()));
  for (int64_t document = first_document_; document <= last_document; ++document) {
    for (int64_t left = tokens_of(document).size(); left > 0; left -= seq_length - kSpecials) {
      lengths.push_back(static_cast<int32_t>(std::min(left + kSpecials, seq_length)));
    }
  }
  rows_ = pack_rows(lengths, seq_length);
}

Range BertDataset::tokens_of(int64_t document) const {
  return intersect(dataset_->document_tokens(document), range_);
}

int64_t BertDataset::num_samples() const { return packing_ ? rows_.num_rows() : num_pieces(); }

Range BertDataset::piece_tokens(int64_t piece) const {
  require(0 <= piece && piece < num_pieces(), "{}: there is no piece {}: there are {}",
          dataset_->prefix(), piece, num_pieces());
  const auto found = std::upper_bound(first_piece_.begin(), first_piece_.end(), piece) - 1;
  const Range document = tokens_of(first_document_ + (found - first_piece_.begin()));
  const int64_t text = seq_length_ - kSpecials;
  const int64_t begin = document.begin + (piece - *found) * text;
  return {begin, std::min(begin + text, document.end)};
}

void BertDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          dataset_->prefix(), sample, num_samples());
  out.clear();
  if (!packing_) {
    append_piece(sample, epoch, out);
    return;
  }
  for (const int64_t piece : rows_.row(sample)) append_piece(piece, epoch, out);
}

void BertDataset::append_piece(int64_t piece, int64_t epoch, Sample& out) const {
  const Range text = piece_tokens(piece);
  const size_t begin = out.tokens.size(), size = static_cast<size_t>(text.size() + kSpecials);
  out.tokens.resize(begin + size);
  out.targets.resize(begin + size);
  const std::span<int32_t> tokens = std::span(out.tokens).subspan(begin);
  tokens.front() = *masking_.traits().special.start;
  dataset_->read_tokens(text.begin, tokens.subspan(1, size - kSpecials));
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
          "sentence pairs can not be packed, since their lengths are others in each epoch: turn "
          "packing off; padding costs no computation");
  return std::make_shared<const BertPairDataset>(std::move(dataset), tokens, seq_length, traits,
                                                 options, seed);
}

}  // namespace tessera
