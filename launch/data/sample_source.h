#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/config/run_config.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// A dataset, or a file of labelled texts, that a config names.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// Its tokens or its texts.
  virtual int64_t size() const = 0;

  /// Its sizes, and a checksum that other content changes (see sampled_checksum()).
  virtual std::string identity() const = 0;

  /// Samples, of the kind that the config's model learns from, of some of them. `seed` decides
  /// what is random in them. Throws if they are too few for a sample.
  virtual std::shared_ptr<const Dataset> samples(Range range, uint64_t seed) const = 0;
};

/// Opens one, which keeps what it needs of `config`, and adds to `notes` what a person should know
/// of it. Throws if it is missing or damaged, or if its metadata says that another tokenizer than
/// `tokenizer` made it.
std::unique_ptr<const SampleSource> open_source(const RunConfig& config,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                const std::string& path,
                                                std::vector<std::string>& notes);

}  // namespace tessera
