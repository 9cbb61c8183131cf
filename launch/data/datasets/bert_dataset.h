#pragma once

#include <cstdint>
#include <memory>

#include "core/range.h"
#include "launch/data/datasets/document_pieces.h"
#include "launch/data/datasets/mlm_masking.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

struct BertDataOptions {
  /// Two texts a sample, and whether the second follows the first (bert_pair_dataset.h).
  bool sentence_pairs = false;
  /// Short samples share a row, as documents of their own. Not for pairs, whose length is another
  /// one in each epoch.
  bool packing = false;
  /// Of pairs: so many are made of less text than fits, so that short text is seen too.
  double short_sequence_probability = 0.1;
  MaskingOptions masking = {};
};

/// Masked language modelling on a range of a dataset's tokens, the same way in which GptDataset
/// takes one: [CLS] text [SEP], where the text of a sample is up to seq_length − 2 tokens of one
/// document. A document is cut into pieces of that size, of which the last may be shorter; one that
/// reaches over an end of the range is cut there. The masks are new in every epoch.
class BertDataset final : public Dataset {
 public:
  /// Throws if the range is not within the dataset or is empty, if seq_length is less than 3, or
  /// what MlmMasking throws.
  BertDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length,
              const VocabularyTraits& traits, const MaskingOptions& masking, bool packing,
              uint64_t seed);

  /// Rows, where pieces are packed, else pieces.
  int64_t num_samples() const override;
  int64_t seq_length() const override { return seq_length_; }
  int64_t num_pieces() const { return pieces_.num_pieces(); }

  /// Without labels; a piece is a document of the sample. A piece is masked the same, packed or
  /// not.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;

  /// The places of a piece's text in the concatenation of the dataset's sequences.
  Range piece_tokens(int64_t piece) const { return pieces_.piece(piece); }

 private:
  void append_piece(int64_t piece, int64_t epoch, Sample& out) const;

  int64_t seq_length_;
  DocumentPieces pieces_;
  MlmMasking masking_;
  bool packing_;
  PackedRows rows_;  ///< where packing_
};

/// The dataset that the options ask for.
std::shared_ptr<const Dataset> make_bert_dataset(std::shared_ptr<const IndexedDataset> dataset,
                                                 Range tokens, int64_t seq_length,
                                                 const VocabularyTraits& traits,
                                                 const BertDataOptions& options, uint64_t seed);

}  // namespace tessera
