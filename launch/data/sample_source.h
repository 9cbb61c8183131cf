#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/config/run_config.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// Purpose of samples.
struct SampleUse {
  uint64_t seed = 0;      ///< of their randomness
  bool training = false;  ///< whether to augment them
};

/// A dataset or a file of labeled texts in a config.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// The number of tokens, texts or images.
  virtual int64_t size() const = 0;

  /// Mean bytes of text per token, from the dataset's metadata; 0 if it has none.
  virtual double bytes_per_token() const { return 0.0; }

  /// Form of its messages; null if it has none.
  virtual std::shared_ptr<const ChatForm> chat() const { return nullptr; }

  /// Its sizes and a checksum of its content (see sampled_checksum()).
  virtual std::string identity() const = 0;

  /// Returns samples of a range of tokens, texts or images, for the objective of the config's
  /// model. Throws if the range is too small for a sample.
  virtual std::shared_ptr<const Dataset> samples(Range range, const SampleUse& use) const = 0;
};

/// The first of the training data that is a file of texts, if the model predicts the next token:
/// data.packing is `documents` then, unless it is given. nullopt if there is none.
std::optional<std::string> packed_examples(const RunConfig& config);

/// data.packing, also if it is automatic.
Packing packing_of(const RunConfig& config);

/// How many ids after those of the data are sentinels: 0 unless texts of a prepared dataset are
/// corrupted (span_corruption).
int64_t num_sentinels(const RunConfig& config);

/// Opens a source, which copies what it needs from `config`, and appends remarks for the user to
/// `notes`. Throws if it is missing or damaged, or if its metadata says that a tokenizer other than
/// `tokenizer` made it.
std::unique_ptr<const SampleSource> open_source(const RunConfig& config,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                const std::string& path,
                                                std::vector<std::string>& notes);

}  // namespace tessera
