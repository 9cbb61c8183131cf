#include "tests/bench/random_samples.h"

#include "core/checked.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/images/image_dataset.h"
#include "tests/bench/bench_run.h"

namespace tessera::bench {

RandomSamples::RandomSamples(const RunConfig& config, Lengths lengths)
    : model_(config.model), target_share_(target_share(config)), lengths_(lengths) {}

int64_t RandomSamples::length_of(uint32_t bits, int64_t longest) const {
  if (lengths_ == Lengths::full) return longest;
  if (lengths_ == Lengths::half) return longest / 2;
  return longest / 4 + static_cast<int64_t>(bits) % (longest / 2 + 1);
}

void RandomSamples::fill(int64_t sample, int64_t epoch, Sample& out) const {
  const RandomKey key{1, RandomPurpose::sampling, narrow<uint32_t>(epoch), 0};
  constexpr int64_t kNumbers = 1 << 20;  // more than a sample draws
  const auto first = static_cast<uint64_t>(sample * kNumbers);
  if (model_.kind == ModelKind::vit) return fill_image(key, first, out);
  const int64_t n = length_of(random_bits(key, first), model_.seq_length);
  out.clear();
  for (int64_t i = 1; i <= n; ++i) {
    const auto element = first + 2 * static_cast<uint64_t>(i);
    const auto token =
        static_cast<int32_t>(random_bits(key, element) % static_cast<uint64_t>(model_.vocab_size));
    const bool has_target = random_uniform(key, element + 1) < target_share_;
    out.tokens.push_back(token);
    out.token_types.push_back(model_.token_types > 1 && i > n / 2 ? 1 : 0);
    out.targets.push_back(has_target ? token : kIgnoreTarget);
  }
  out.document_lengths.push_back(narrow<int32_t>(n));
  if (model_.next_sentence) out.labels.push_back(static_cast<int32_t>(sample % 2));
  if (model_.source_length > 0) fill_source(key, first + kNumbers / 2, out);
}

void RandomSamples::fill_source(RandomKey key, uint64_t first, Sample& out) const {
  const int64_t n = length_of(random_bits(key, first), model_.source_length);
  for (int64_t i = 1; i <= n; ++i) {
    out.source_tokens.push_back(
        static_cast<int32_t>(random_bits(key, first + static_cast<uint64_t>(i)) %
                             static_cast<uint64_t>(model_.vocab_size)));
  }
  out.source_lengths.push_back(narrow<int32_t>(n));
}

void RandomSamples::fill_image(RandomKey key, uint64_t first, Sample& out) const {
  Pixels image{model_.image_size, model_.image_size, model_.num_channels, {}};
  image.values.resize(static_cast<size_t>(image.rows * image.columns * image.channels));
  for (uint8_t& value : image.values) {
    value = static_cast<uint8_t>(random_bits(key, first++) & 0xff);
  }
  ImageEncoder(model_).encode(image, out);
  out.labels.push_back(
      static_cast<int32_t>(random_bits(key, first) % static_cast<uint64_t>(model_.num_labels)));
}

}  // namespace tessera::bench
