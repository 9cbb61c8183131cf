#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/labeled_lines.h"
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

/// The tokens of a file of labeled texts (labeled_lines.h) or sentences of labeled words
/// (labeled_words.h), in memory.
class LabeledTexts {
 public:
  /// Throws as for_each_labeled_line and ClassificationEncoder::encode do, and if there is no
  /// text.
  LabeledTexts(const std::string& path, const Labels& labels, const ClassificationEncoder& encoder);

  /// Likewise for words.
  LabeledTexts(const std::string& path, const Labels& labels, const WordEncoder& encoder);

  int64_t size() const { return std::ssize(begins_) - 1; }
  int64_t seq_length() const { return seq_length_; }
  const std::string& path() const { return path_; }

  /// Returns whether the file has pairs of texts.
  bool has_pairs() const;

  /// The number of texts truncated to seq_length.
  int64_t num_truncated() const { return num_truncated_; }

  int32_t label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }

  /// Overwrites `out` with text `i`.
  void fill(int64_t i, Sample& out) const;

 private:
  void add_tokens(const Sample& sample);
  void require_texts() const;

  std::string path_;
  int64_t seq_length_;
  std::vector<int32_t> tokens_;         ///< of all texts
  std::vector<int32_t> targets_;        ///< of all tokens; empty unless words have labels
  std::vector<int64_t> begins_{0};      ///< start of each text in tokens_, then the total size
  std::vector<int32_t> first_lengths_;  ///< number of tokens of type 0 in each text
  std::vector<int32_t> labels_;         ///< empty if words have labels
  std::vector<float> label_values_;     ///< `label_width_` of each text
  size_t label_width_ = 0;
  int64_t num_truncated_ = 0;
};

/// A subset of a file's texts, the same in every epoch.
class ClassificationDataset final : public Dataset {
 public:
  /// Selects `places` of a fixed random order, which depends only on the number of texts. Many
  /// files are sorted by label, and training and held-out texts need all labels. Throws if `places`
  /// is empty or not within the texts.
  ClassificationDataset(std::shared_ptr<const LabeledTexts> texts, Range places);

  int64_t num_samples() const override { return places_.size(); }
  int64_t seq_length() const override { return texts_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t text_of(int64_t sample) const;

  std::shared_ptr<const LabeledTexts> texts_;
  Range places_;
};

}  // namespace tessera
