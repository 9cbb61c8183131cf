#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/sample.h"

namespace tessera {

/// Lists of any lengths, one after the other in memory.
template <typename T>
class Lists {
 public:
  void add(std::span<const T> list) {
    values_.insert(values_.end(), list.begin(), list.end());
    begins_.push_back(values_.size());
  }
  std::span<const T> operator[](int64_t i) const {
    const auto index = static_cast<size_t>(i);
    return std::span(values_).subspan(begins_[index], begins_[index + 1] - begins_[index]);
  }
  bool has_values() const { return !values_.empty(); }

 private:
  std::vector<T> values_;
  std::vector<size_t> begins_{0};
};

/// The samples of a file of texts, tokenized, in memory and in the order of the file.
class TextSamples {
 public:
  /// `unit` is what the file has many of: "text", "pair". A sample has at most `seq_length` tokens.
  TextSamples(std::string path, const char* unit, int64_t seq_length)
      : path_(std::move(path)), unit_(unit), seq_length_(seq_length) {}

  /// `truncated` says whether its texts were.
  void add(const Sample& sample, bool truncated);
  /// Throws if there is no sample. Call it after the last add().
  void require_samples() const;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  const char* unit() const { return unit_; }
  int64_t seq_length() const { return seq_length_; }
  int64_t num_truncated() const { return num_truncated_; }
  /// Whether any sample has a second text, of token type 1.
  bool has_pairs() const { return token_types_.has_values(); }

  /// Overwrites `out` with sample `i`.
  void fill(int64_t i, Sample& out) const;

 private:
  std::string path_;
  const char* unit_;
  int64_t seq_length_;
  int64_t size_ = 0, num_truncated_ = 0;
  Lists<int32_t> tokens_, document_lengths_, labels_, source_tokens_, source_lengths_;
  Lists<int32_t> token_types_;  ///< empty if all are 0
  Lists<int32_t> targets_;      ///< empty if there is none
  Lists<float> label_values_;
};

/// A part of a file's samples, the same in every epoch.
class TextDataset final : public Dataset {
 public:
  /// Selects `places` of a fixed random order, which depends only on the number of samples. Many
  /// files are sorted by label, and training and held-out texts need all labels. Throws if `places`
  /// is empty or not within the samples.
  TextDataset(std::shared_ptr<const TextSamples> samples, Range places);

  int64_t num_samples() const override { return places_.size(); }
  int64_t seq_length() const override { return samples_->seq_length(); }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t place_of(int64_t sample) const;

  std::shared_ptr<const TextSamples> samples_;
  Range places_;
};

}  // namespace tessera
