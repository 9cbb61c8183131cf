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
  /// Samples are pairs of texts, with a label that says whether the second follows the first
  /// (bert_pair_dataset.h).
  bool sentence_pairs = false;
  /// Pack short samples into one row, as separate documents. Not for pairs, whose lengths change
  /// with each epoch.
  bool packing = false;
  /// For pairs: the fraction of samples that are shorter than possible, so that the model also sees
  /// short text.
  double short_sequence_probability = 0.1;
  MaskingOptions masking = {};
};

/// Masked language modeling on a range of a dataset's tokens, as GptDataset uses it. A sample is
/// [CLS] text [SEP] with up to seq_length − 2 text tokens of one document. Documents are cut into
/// pieces of this size, of which the last may be shorter; a document that crosses an end of the
/// range is cut there. Masks change with each epoch.
class BertDataset final : public Dataset {
 public:
  /// Throws if the range is empty or not within the dataset, if seq_length is less than 3, and as
  /// MlmMasking does.
  BertDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length,
              const VocabularyTraits& traits, const MaskingOptions& masking, bool packing,
              uint64_t seed);

  /// The number of rows if pieces are packed, otherwise of pieces.
  int64_t num_samples() const override;
  int64_t seq_length() const override { return seq_length_; }
  int64_t num_pieces() const { return pieces_.num_pieces(); }

  /// Sets no labels; each piece is a document of the sample. Packing does not change a piece's
  /// masks.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

  /// Returns the range of a piece in the concatenation of the dataset's sequences.
  Range piece_tokens(int64_t piece) const { return pieces_.piece(piece); }

 private:
  void append_piece(int64_t piece, int64_t epoch, Sample& out) const;

  int64_t seq_length_;
  DocumentPieces pieces_;
  MlmMasking masking_;
  bool packing_;
  PackedRows rows_;  ///< if packing_
};

/// Creates the dataset for these options.
std::shared_ptr<const Dataset> make_bert_dataset(std::shared_ptr<const IndexedDataset> dataset,
                                                 Range tokens, int64_t seq_length,
                                                 const VocabularyTraits& traits,
                                                 const BertDataOptions& options, uint64_t seed);

}  // namespace tessera
