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

/// Masked language modelling on pairs of texts, as in Devlin et al., "BERT", 2019: [CLS] A [SEP] B
/// [SEP], with token types 0 up to the first [SEP] and 1 behind it. The sequences of a document are
/// its sentences. At the start each document is cut into chunks of consecutive sentences, at least
/// two, which fill a sample: seq_length − 3 tokens, or with short_sequence_probability a random
/// number from 2 up. Each chunk is one sample, which in every epoch is cut in two at another
/// random sentence: A is what is before. With probability 1/2 B is what follows, and the label is 0
/// (it is next, as Hugging Face's next_sentence_label says), else B is text from a random other
/// document, and the label is 1. What is too long is shortened token by token, the longer text
/// first, each at a random end.
class BertPairDataset final : public Dataset {
 public:
  /// Takes the sentences that lie wholly within `tokens`, a range of the dataset's tokens. Throws
  /// if the range is not within the dataset, if it has less than two documents or none of two
  /// sentences (not counting empty ones), if seq_length is less than 5, or what
  /// MlmMasking throws.
  BertPairDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length,
                  const VocabularyTraits& traits, const BertDataOptions& options, uint64_t seed);

  int64_t num_samples() const override { return static_cast<int64_t>(chunks_.size()); }
  int64_t seq_length() const override { return seq_length_; }

  /// A sample is one document, with one label.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;

 private:
  /// Sentences that neither begin nor end with an empty one.
  struct Chunk {
    int64_t document;  ///< in documents_
    Range sentences;
  };
  /// Two texts, as places in the concatenation of the dataset's sequences.
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
