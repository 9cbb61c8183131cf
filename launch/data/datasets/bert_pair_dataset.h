#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/bert_dataset.h"
#include "launch/data/datasets/mlm_masking.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

/// Masked language modeling on pairs of texts, as in Devlin et al., "BERT", 2019: [CLS] A [SEP] B
/// [SEP], with token type 0 up to the first [SEP] and 1 after it. Sequences of a document are its
/// sentences. Documents are cut into chunks of at least two consecutive sentences that fill a
/// sample: seq_length − 3 tokens or, with short_sequence_probability, a random number of at least
/// 2. Each chunk is one sample and is split at another random sentence in every epoch; A is the
/// text before the split. With probability 1/2, B is the text after it and the label is 0 (is next,
/// as in Hugging Face's next_sentence_label). Otherwise B is text of another random document and
/// the label is 1. Pairs that are too long are truncated token by token, the longer text first,
/// each token at a random end.
class BertPairDataset final : public Dataset {
 public:
  /// Uses the sentences that are entirely within `tokens`, a range of the dataset's tokens. Throws
  /// if the range is not within the dataset, has fewer than two documents or no document with two
  /// non-empty sentences, if seq_length is less than 5, and as MlmMasking does.
  BertPairDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length,
                  const VocabularyTraits& traits, const BertDataOptions& options, uint64_t seed);

  int64_t num_samples() const override { return static_cast<int64_t>(chunks_.size()); }
  int64_t seq_length() const override { return seq_length_; }

  /// A sample is one document with one label.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  /// Sentences; neither the first nor the last is empty.
  struct Chunk {
    int64_t document;  ///< index into documents_
    Range sentences;
  };
  /// Two texts, as ranges of the concatenation of the dataset's sequences.
  struct Pair {
    Range a, b;
    bool random = false;
  };

  int64_t sentence_end(int64_t sentence) const;
  Range tokens_of(Range sentences) const;
  Range trimmed(Range sentences) const;
  void add_documents();
  void add_chunks(int64_t document);
  int64_t target_length(int64_t sample) const;
  Pair choose(int64_t sample, int64_t epoch) const;
  Range random_text(int64_t not_from, uint32_t document_bits, uint32_t sentence_bits,
                    int64_t length) const;
  void shorten(int64_t sample, int64_t epoch, Pair& pair) const;

  std::shared_ptr<const IndexedDataset> dataset_;
  Range range_;
  int64_t seq_length_;
  double short_sequence_probability_;
  uint64_t seed_;
  MlmMasking masking_;
  std::vector<Range> documents_;  ///< sentences of each document that has any
  std::vector<Chunk> chunks_;
};

}  // namespace tessera
