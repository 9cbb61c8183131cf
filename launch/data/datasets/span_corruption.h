#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/range.h"
#include "launch/config/span_corruption_options.h"
#include "launch/data/datasets/document_pieces.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/sample.h"

namespace tessera {

/// The spans of a text of `tokens` tokens: how many tokens are replaced, in how many spans.
struct NoiseCounts {
  int64_t tokens;
  int64_t spans;
};

/// As in T5's random_spans_noise_mask: a fraction noise_density of the tokens, rounded, and spans
/// of mean_noise_span_length on average, with at least one token between two. At least 1 of each
/// and fewer than all tokens. `tokens` must be at least 2.
NoiseCounts noise_counts(int64_t tokens, const SpanCorruptionOptions& options);

/// The most tokens of a text of which the source, with its end token, has at most source_length
/// tokens, and the target at most seq_length, with no more spans than sentinels. Throws if a text
/// of 2 tokens does not fit.
int64_t longest_corrupted_text(int64_t source_length, int64_t seq_length,
                               const SpanCorruptionOptions& options);

/// The lengths of kept and replaced spans in turns, beginning with a kept one: T5's random
/// segmentation, where each way to cut is equally likely; the last span is replaced. A function of
/// (seed, epoch, text).
std::vector<int32_t> noise_spans(int64_t tokens, const SpanCorruptionOptions& options,
                                 uint64_t seed, int64_t epoch, int64_t text);

/// Span corruption of a range of a dataset's tokens. Documents are cut into texts of up to
/// longest_corrupted_text() tokens; each is a sample. The end-of-document token is left out. A
/// text of a single token is its own source, with an empty target. Sentinel k is token
/// first_sentinel + sentinels − 1 − k, so that a T5 tokenizer's <extra_id_k> is meant if the
/// vocabulary before them is the tokenizer's. Spans change with each epoch.
class SpanCorruptionDataset final : public Dataset {
 public:
  /// Throws if the range is not within the dataset or has no text, and as longest_corrupted_text()
  /// does.
  SpanCorruptionDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                        int64_t source_length, int64_t seq_length, SequenceEnds ends,
                        bool ends_documents, int32_t first_sentinel,
                        const SpanCorruptionOptions& options, uint64_t seed);

  int64_t num_samples() const override { return pieces_.num_pieces(); }
  int64_t seq_length() const override { return seq_length_; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;
  void will_fill(int64_t sample, int64_t epoch) const override;
  std::vector<TextOrigin> origins(int64_t sample, int64_t epoch) const override;

 private:
  int64_t seq_length_;
  SequenceEnds ends_;
  int32_t first_sentinel_;
  SpanCorruptionOptions options_;
  uint64_t seed_;
  DocumentPieces pieces_;
};

}  // namespace tessera
