#include "tests/bench/random_samples.h"

#include "core/checked.h"
#include "core/ops/cross_entropy.h"
#include "core/random.h"
#include "tests/bench/bench_run.h"

namespace tessera::bench {

RandomSamples::RandomSamples(const RunConfig& config, Lengths lengths)
    : model_(config.model), target_share_(target_share(config)), lengths_(lengths) {}

int64_t RandomSamples::length_of(uint32_t bits) const {
  const int64_t seq = model_.seq_length;
  if (lengths_ == Lengths::full) return seq;
  if (lengths_ == Lengths::half) return seq / 2;
  return seq / 4 + static_cast<int64_t>(bits) % (seq / 2 + 1);
}

void RandomSamples::fill(int64_t sample, int64_t epoch, Sample& out) const {
  const RandomKey key{1, RandomPurpose::sampling, narrow<uint32_t>(epoch), 0};
  const auto first = static_cast<uint64_t>(sample * (model_.seq_length + 1)) * 2;
  const int64_t n = length_of(random_bits(key, first));
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
}

}  // namespace tessera::bench
