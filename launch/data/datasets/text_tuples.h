#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/classification_dataset.h"
#include "launch/data/datasets/text_fields.h"
#include "launch/data/sample.h"

namespace tessera {

/// Texts that belong together, named as in sentence-transformers: an anchor, such as a question, a
/// positive, such as its answer, and optionally a negative, which is no answer. See text_fields.h.
extern const TextFields kTupleFields;

/// What the first line of a .jsonl or .tsv file says about its tuples; nullopt if it names no
/// anchor, so that it is a file of something else, or cannot be read, which its reader reports.
struct TupleColumns {
  bool negative = false;
};
std::optional<TupleColumns> tuple_columns(const std::string& path);

/// How a loss uses tuples (ModelConfig).
struct TupleUse {
  bool hard_negatives = false;
  bool symmetric_loss = false;
};

/// The tokens of a file of tuples, in memory.
class TextTuples {
 public:
  /// Throws as for_each_text_record and ClassificationEncoder::encode do, if there is no tuple, and
  /// unless the file has negatives exactly if use.hard_negatives.
  TextTuples(const std::string& path, TupleUse use, const ClassificationEncoder& encoder);

  int64_t size() const { return std::ssize(lengths_) / texts_; }
  const std::string& path() const { return path_; }
  /// The most tokens of a text.
  int64_t seq_length() const { return seq_length_; }
  int64_t texts_of_sample() const { return texts_; }
  int64_t num_truncated() const { return num_truncated_; }

  /// Overwrites `out` with tuple `i`: a document for each text. Those that the loss asks for have
  /// the label 0, so that they are counted: the anchor and, if it is symmetric, the positive.
  void fill(int64_t i, Sample& out) const;

 private:
  std::string path_;
  int64_t seq_length_;
  int64_t texts_;
  int64_t queries_;
  std::vector<int32_t> tokens_;   ///< of all texts
  std::vector<int64_t> begins_;   ///< start of each tuple in tokens_
  std::vector<int32_t> lengths_;  ///< of each text
  int64_t num_truncated_ = 0;
};

/// A subset of a file's tuples, the same in every epoch.
class TextTupleDataset final : public Dataset {
 public:
  /// Selects `places` of a fixed random order, as ClassificationDataset does. Throws if `places` is
  /// empty or not within the tuples.
  TextTupleDataset(std::shared_ptr<const TextTuples> tuples, Range places);

  int64_t num_samples() const override { return places_.size(); }
  int64_t seq_length() const override { return tuples_->seq_length() * tuples_->texts_of_sample(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t tuple_of(int64_t sample) const;

  std::shared_ptr<const TextTuples> tuples_;
  Range places_;
};

}  // namespace tessera
