#pragma once

#include <cstdint>
#include <memory>

#include "core/range.h"
#include "launch/data/datasets/document_pieces.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/sample.h"

namespace tessera {

/// Samples for a GPT of whole documents: a row has as many as fit, which do not see one another and
/// whose positions begin at 0. Every token of a document but its first is a target once, and no
/// token has a target of another document. So the last token of a document, which predicts nothing,
/// is never an input. A document of more than seq_length + 1 tokens is cut into pieces of
/// seq_length inputs; the last target of a piece is the first input of the next. Documents of one
/// token are left out. Samples are the same in every epoch.
class GptPackedDataset final : public Dataset {
 public:
  /// Takes a range of the dataset's tokens; a document that reaches over an end of it is cut there.
  /// Throws if it is not within the dataset, if no document has two tokens, or seq_length is less
  /// than 1.
  GptPackedDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length);

  int64_t num_samples() const override { return rows_.num_rows(); }
  int64_t seq_length() const override { return seq_length_; }

  /// Throws if a token is not in the dataset's vocabulary.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;

 private:
  int64_t seq_length_;
  DocumentPieces pieces_;
  PackedRows rows_;
};

}  // namespace tessera
