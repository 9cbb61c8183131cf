#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/range.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

struct GptDataOptions {
  /// Tokens attend only within their document, and positions restart in each. The dataset's index
  /// defines where documents end, not the value of any token.
  bool separate_documents = false;
  /// Whether a document's last token predicts the next document's first.
  bool loss_across_documents = true;
};

/// Samples of seq_length tokens, cut from a range of a dataset's tokens regardless of document
/// boundaries. The target of each token is the next one. The last target of a sample is the first
/// token of the next sample. Samples are the same in every epoch.
class GptDataset final : public Dataset {
 public:
  /// Throws if the range is not within the dataset or has too few tokens for one sample.
  GptDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens, int64_t seq_length,
             const GptDataOptions& options = {});

  /// (tokens - 1) / seq_length, rounded down.
  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return seq_length_; }

  /// Throws if a token is not in the dataset's vocabulary.
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

  /// tokens, targets: seq_length each, not overlapping. Throws if a token is not in the dataset's
  /// vocabulary. Thread-safe.
  void fill(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  std::shared_ptr<const IndexedDataset> dataset_;
  Range range_;
  int64_t seq_length_;
  GptDataOptions options_;
  int64_t num_samples_ = 0;
};

}  // namespace tessera
