#pragma once

#include <string>

#include "core/random.h"
#include "launch/config/run_config.h"
#include "launch/data/sample.h"

namespace tessera::bench {

/// How many of a sample's T positions are tokens; the rest is padding.
enum class Lengths : uint8_t {
  full,         ///< all
  half,         ///< T / 2
  around_half,  ///< T/4 to 3T/4, T/2 on average
};

/// Random samples for the config's model: for GPT and decoders of a source text, every token has a
/// target, for BERT 15% of them, and each sample is one sentence pair with its label. For ViT, each
/// sample is an image with a class.
class RandomSamples final : public Dataset {
 public:
  RandomSamples(const RunConfig& config, Lengths lengths);

  int64_t num_samples() const override { return int64_t{1} << 20; }
  int64_t seq_length() const override { return model_.seq_length; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;

 private:
  int64_t length_of(uint32_t bits, int64_t longest) const;
  void fill_source(RandomKey key, uint64_t first, Sample& out) const;
  void fill_image(RandomKey key, uint64_t first, Sample& out) const;

  ModelConfig model_;
  double target_share_;
  Lengths lengths_;
};

}  // namespace tessera::bench
