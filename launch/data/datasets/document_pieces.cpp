#include "launch/data/datasets/document_pieces.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/datasets/dataset_origins.h"

namespace tessera {

DocumentPieces::DocumentPieces(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                               int64_t most_tokens, int64_t left_out)
    : dataset_(std::move(dataset)), range_(tokens), most_tokens_(most_tokens), left_out_(left_out) {
  require(most_tokens >= 1 && left_out >= 0, "there cannot be pieces of {} tokens with {} left out",
          most_tokens, left_out);
  require(0 <= tokens.begin && tokens.begin <= tokens.end && tokens.end <= dataset_->num_tokens(),
          "{}: tokens [{}, {}) are not within the dataset, which has {}", dataset_->prefix(),
          tokens.begin, tokens.end, dataset_->num_tokens());
  require(!tokens.empty(),
          "{}: the range of tokens [{}, {}) is empty, but at least one is needed: use more text",
          dataset_->prefix(), tokens.begin, tokens.end);
  first_document_ = dataset_->document_at(tokens.begin);
  const int64_t last_document = dataset_->document_at(tokens.end - 1);
  for (int64_t document = first_document_; document <= last_document; ++document) {
    const int64_t pieces = ceil_div(tokens_of(document).size(), most_tokens);
    first_piece_.push_back(first_piece_.back() + pieces);
  }
  require(num_pieces() > 0,
          "{}: no document in tokens [{}, {}) has more than {} token{}: use longer documents",
          dataset_->prefix(), tokens.begin, tokens.end, left_out, left_out == 1 ? "" : "s");
}

Range DocumentPieces::tokens_of(int64_t document) const {
  Range tokens = intersect(dataset_->document_tokens(document), range_);
  tokens.end = std::max(tokens.end - left_out_, tokens.begin);
  return tokens;
}

Range DocumentPieces::piece(int64_t number) const {
  require(0 <= number && number < num_pieces(), "{}: there is no piece {}: there are {}",
          dataset_->prefix(), number, num_pieces());
  const auto found = std::upper_bound(first_piece_.begin(), first_piece_.end(), number) - 1;
  const Range document = tokens_of(first_document_ + (found - first_piece_.begin()));
  const int64_t begin = document.begin + (number - *found) * most_tokens_;
  return {begin, std::min(begin + most_tokens_, document.end)};
}

TextOrigin DocumentPieces::origin(int64_t piece, int64_t document) const {
  return origin_of(*dataset_, this->piece(piece), document);
}

std::vector<int32_t> DocumentPieces::lengths(int64_t more) const {
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(num_pieces()));
  const auto documents = static_cast<int64_t>(first_piece_.size()) - 1;
  for (int64_t document = first_document_; document < first_document_ + documents; ++document) {
    for (int64_t left = tokens_of(document).size(); left > 0; left -= most_tokens_) {
      lengths.push_back(narrow<int32_t>(std::min(left, most_tokens_) + more));
    }
  }
  return lengths;
}

}  // namespace tessera
