#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// What a dataset gives for one row of a batch: n ≤ seq_length tokens, which form one document or
/// several. What is missing up to seq_length is padding.
struct Sample {
  std::vector<int32_t> tokens;            ///< n
  std::vector<int32_t> token_types;       ///< n; empty: all 0
  std::vector<int32_t> targets;           ///< n; kIgnoreTarget where there is no loss
  std::vector<int32_t> document_lengths;  ///< each at least 1, together n
  std::vector<int32_t> labels;            ///< one a document, or kIgnoreTarget; empty: none has one

  /// Empties all and keeps their memory.
  void clear() {
    tokens.clear();
    token_types.clear();
    targets.clear();
    document_lengths.clear();
    labels.clear();
  }
};

/// Samples of a fixed number, each of which may look different in every epoch but is the same on
/// every rank. Any number of threads may read at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t num_samples() const = 0;

  /// The most tokens that a sample has.
  virtual int64_t seq_length() const = 0;

  /// Whether a run takes the samples as they are numbered, epoch after epoch: they are in an order
  /// already. Else it shuffles them in each epoch.
  virtual bool has_order() const { return false; }

  /// Overwrites `out` with sample `sample` as it is in epoch `epoch` (counted from 0). Throws,
  /// naming file and place, if what was read is damaged.
  virtual void fill(int64_t sample, int64_t epoch, Sample& out) const = 0;

  /// A hint that fill() will soon be asked for a sample, which exists: a dataset whose text is in a
  /// file lets the system fetch it from the disk meanwhile. Waits only where the disk takes no more
  /// requests.
  virtual void will_fill(int64_t /*sample*/, int64_t /*epoch*/) const {}
};

}  // namespace tessera
