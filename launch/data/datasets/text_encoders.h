#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/text_samples.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/special_tokens.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// Encodes a text, without special tokens at its ends.
using EncodeText = std::function<std::vector<int32_t>(std::string_view)>;

/// Builds a classifier's input: [CLS] text [SEP] with token type 0, or [CLS] text [SEP] text_pair
/// [SEP] with token type 1 after the first [SEP]. An input is one document.
class ClassificationEncoder {
 public:
  /// With `truncate`, inputs longer than seq_length are truncated at the end, the longer text of a
  /// pair first, token by token; otherwise they are errors. Throws if the vocabulary has no start
  /// or end token, or if seq_length is less than 5.
  ClassificationEncoder(EncodeText encode, const VocabularyTraits& traits, int64_t seq_length,
                        bool truncate);

  int64_t seq_length() const { return seq_length_; }

  /// Overwrites `out` without setting a label. Returns whether the text was truncated. Throws a
  /// message that starts with `where` if a text has no tokens, is too long or cannot be encoded.
  bool encode(std::string_view text, std::optional<std::string_view> text_pair,
              std::string_view where, Sample& out) const;

 private:
  EncodeText encode_;
  int32_t start_ = 0, end_ = 0;
  int64_t seq_length_;
  bool truncate_;
};

/// Builds the input of a classifier of words: [CLS] words [SEP] of one document, with the label of
/// each word as the target of its first token, as is usual with `transformers`. The other tokens
/// have no target.
class WordEncoder {
 public:
  /// Encodes each word alone; of a tokenizer that keeps spaces, with a space before it. The other
  /// arguments are as for ClassificationEncoder. `tokenizer` must outlive this.
  WordEncoder(const Tokenizer& tokenizer, int64_t seq_length, bool truncate);

  int64_t seq_length() const { return seq_length_; }

  /// Overwrites `out`. Without `labels`, every word has the target 0. Returns whether the sentence
  /// was truncated, perhaps within a word. Throws a message that starts with `where` if a word has
  /// no token or cannot be encoded, or if the sentence is too long.
  bool encode(std::span<const std::string_view> words, std::span<const int32_t> labels,
              std::string_view where, Sample& out) const;

 private:
  const Tokenizer& tokenizer_;
  int32_t start_ = 0, end_ = 0;
  int64_t seq_length_;
  bool truncate_;
};

/// Reads a file of labeled texts (labeled_lines.h). Throws as for_each_labeled_line and
/// ClassificationEncoder::encode do, and if there is no text.
std::shared_ptr<const TextSamples> read_labeled(const std::string& path, const Labels& labels,
                                                const ClassificationEncoder& encoder,
                                                const RowOptions& options = {});
/// Reads sentences of labeled words (labeled_words.h).
std::shared_ptr<const TextSamples> read_labeled(const std::string& path, const Labels& labels,
                                                const WordEncoder& encoder,
                                                const RowOptions& options = {});

}  // namespace tessera
