#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/range.h"

namespace tessera {

/// One row of a batch: n ≤ seq_length tokens, which form one or more documents. The rest of the row
/// is padding.
struct Sample {
  std::vector<int32_t> tokens;            ///< n
  std::vector<int32_t> token_types;       ///< n; empty: all 0
  std::vector<int32_t> targets;           ///< n; kIgnoreTarget: no loss
  std::vector<int32_t> document_lengths;  ///< each at least 1; they sum to n
  std::vector<int32_t> labels;            ///< one per document, or kIgnoreTarget; empty: no labels
  std::vector<float> label_values = {};   ///< of its document, as in TokenBatch::label_values
  std::vector<float> patches = {};        ///< n × D, as in TokenBatch::patches
  /// The sources of the documents of an encoder–decoder, and the length of each.
  std::vector<int32_t> source_tokens = {};
  std::vector<int32_t> source_lengths = {};
  int32_t dataset = 0;  ///< of a blend, from 0: the one that the sample is from

  /// Clears all parts and keeps their memory.
  void clear() {
    tokens.clear();
    token_types.clear();
    targets.clear();
    document_lengths.clear();
    labels.clear();
    patches.clear();
    label_values.clear();
    source_tokens.clear();
    source_lengths.clear();
    dataset = 0;
  }
};

/// Origin of the text of one of a sample's documents.
struct TextOrigin {
  int64_t document = 0;  ///< of the sample, from 0
  std::string path;      ///< of a dataset's files, without extension, or of a file of texts
  const char* unit;      ///< of what the file has many: "document", "text"
  Range numbers;         ///< which of them, from 0
};

/// "documents 3 to 5 of data/corpus"; numbers count from 0.
std::string to_string(const TextOrigin& origin);

/// A fixed number of samples. A sample may change with the epoch, but is the same on every rank.
/// Reading is thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t num_samples() const = 0;

  /// The maximum number of tokens in a sample.
  virtual int64_t seq_length() const = 0;

  /// Whether a run uses the samples in their own order, epoch after epoch. Otherwise it shuffles
  /// them in each epoch.
  virtual bool has_order() const { return false; }

  /// Overwrites `out` with `sample` as in `epoch` (from 0). Throws, naming file and position, if
  /// the data is damaged.
  virtual void fill(int64_t sample, int64_t epoch, Sample& out) const = 0;

  /// Origins of the texts of a sample, which must exist. Empty if the dataset does not know.
  virtual std::vector<TextOrigin> origins(int64_t /*sample*/, int64_t /*epoch*/) const {
    return {};
  }

  /// Hints that fill() will soon be called for a sample, which must exist, so that the system can
  /// prefetch its text. Blocks only if the disk's request queue is full.
  virtual void will_fill(int64_t /*sample*/, int64_t /*epoch*/) const {}
};

}  // namespace tessera
