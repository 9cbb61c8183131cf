#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/text_fields.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// A text and what a model writes for it, such as its translation: source and target. See
/// text_fields.h.
extern const TextFields kPairFields;

/// The tokens around the texts of an encoder–decoder, as in T5: `end` ends a source and a target,
/// `start` is the decoder's first input.
struct SequenceEnds {
  int32_t start;
  int32_t end;
};

/// `end` is the end-of-document token or, without one, [SEP]; `start` is the padding token or,
/// without one, `end`. Throws if the tokenizer has no `end`.
SequenceEnds sequence_ends(const Tokenizer& tokenizer);
/// The same; nullopt if the tokenizer has no `end`.
std::optional<SequenceEnds> find_sequence_ends(const Tokenizer& tokenizer);

/// Builds samples of an encoder–decoder: the encoder reads the tokens of the source and `end`; the
/// decoder reads `start` and the tokens of the target, whose targets are these tokens and `end`.
class PairEncoder {
 public:
  /// `tokenizer` must outlive this. With `truncate`, texts that are too long are truncated at their
  /// end; otherwise they are errors. Lengths count the tokens above. Throws if a length is less
  /// than 2, and as sequence_ends() does.
  PairEncoder(const Tokenizer& tokenizer, int64_t source_length, int64_t seq_length, bool truncate);

  int64_t seq_length() const { return seq_length_; }
  SequenceEnds ends() const { return ends_; }

  /// Overwrites `out` with a document. Returns whether a text was truncated. Throws a message that
  /// starts with `where` if a text has no tokens, is too long or cannot be encoded.
  bool encode(std::string_view source, std::string_view target, std::string_view where,
              Sample& out) const;

  /// Sets only the parts of the source.
  bool encode_source(std::string_view source, std::string_view where, Sample& out) const;
  /// Likewise for the tokens of a source, without its end.
  bool add_source(std::vector<int32_t> tokens, std::string_view where, Sample& out) const;

 private:
  const Tokenizer& tokenizer_;
  int64_t source_length_, seq_length_;
  bool truncate_;
  SequenceEnds ends_;
};

/// The tokens of a file of pairs, in memory.
class TextPairs {
 public:
  /// Throws as for_each_text_record and PairEncoder::encode do, and if there is no pair.
  TextPairs(const std::string& path, const PairEncoder& encoder);

  int64_t size() const { return std::ssize(pairs_) - 1; }
  const std::string& path() const { return path_; }
  int64_t seq_length() const { return seq_length_; }
  int64_t num_truncated() const { return num_truncated_; }

  /// Overwrites `out` with pair `i`.
  void fill(int64_t i, Sample& out) const;

 private:
  struct Begins {
    size_t source, target;
  };

  std::string path_;
  int64_t seq_length_;
  SequenceEnds ends_;
  std::vector<int32_t> sources_, targets_;  // of all pairs
  std::vector<Begins> pairs_;               // of each pair, then the total sizes
  int64_t num_truncated_ = 0;
};

/// A subset of a file's pairs, the same in every epoch.
class TextPairDataset final : public Dataset {
 public:
  /// Selects `places` of a fixed random order, as ClassificationDataset does. Throws if `places` is
  /// empty or not within the pairs.
  TextPairDataset(std::shared_ptr<const TextPairs> pairs, Range places);

  int64_t num_samples() const override { return places_.size(); }
  int64_t seq_length() const override { return pairs_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t pair_of(int64_t sample) const;

  std::shared_ptr<const TextPairs> pairs_;
  Range places_;
};

}  // namespace tessera
