#pragma once

#include <cstdint>
#include <memory>

#include "core/range.h"
#include "launch/data/datasets/document_pieces.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/sample.h"

namespace tessera {

/// Rows of whole documents for a GPT: each row packs as many as fit. Documents attend only to
/// themselves and have positions from 0. Every token of a document except its first is a target
/// once, and targets never cross documents, so the last token of a document is never an input. A
/// document of more than seq_length + 1 tokens is cut into pieces of seq_length inputs; the last
/// target of a piece is the first input of the next. Documents of one token are dropped. Samples
/// are the same in every epoch.
class GptPackedDataset final : public Dataset {
 public:
  /// Uses a range of the dataset's tokens; a document that crosses an end of it is cut there.
  /// Throws if the range is not within the dataset, if no document has two tokens, or if seq_length
  /// is less than 1.
  GptPackedDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length);

  int64_t num_samples() const override { return rows_.num_rows(); }
  int64_t seq_length() const override { return seq_length_; }

  /// Throws if a token is not in the dataset's vocabulary.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t seq_length_;
  DocumentPieces pieces_;
  PackedRows rows_;
};

}  // namespace tessera
