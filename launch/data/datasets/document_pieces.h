#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/range.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

/// The documents in a range of a dataset's tokens, each cut into pieces of up to `most_tokens`
/// tokens, of which the last may be shorter. A document that crosses an end of the range is cut
/// there.
class DocumentPieces {
 public:
  /// Excludes the last `left_out` tokens of each document; documents without other tokens have no
  /// piece. Throws if the range is not within the dataset or if no document in it has a piece.
  DocumentPieces(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t most_tokens,
                 int64_t left_out = 0);

  const IndexedDataset& dataset() const { return *dataset_; }
  int64_t num_pieces() const { return first_piece_.back(); }

  /// Returns the range of a piece in the concatenation of the dataset's sequences. Throws if there
  /// is no such piece. Takes time logarithmic in the number of documents.
  Range piece(int64_t number) const;

  /// Where a piece is from, as a document of a sample.
  TextOrigin origin(int64_t piece, int64_t document) const;

  /// Returns the length of every piece plus `more`.
  std::vector<int32_t> lengths(int64_t more = 0) const;

 private:
  Range tokens_of(int64_t document) const;

  std::shared_ptr<const IndexedDataset> dataset_;
  Range range_;
  int64_t most_tokens_;
  int64_t left_out_;
  int64_t first_document_ = 0;
  std::vector<int64_t> first_piece_{
      0};  ///< of first_document_ and its successors, then the number of pieces
};

}  // namespace tessera
