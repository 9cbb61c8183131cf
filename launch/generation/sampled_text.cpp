#include "launch/generation/sampled_text.h"

#include <algorithm>

namespace tessera {

SampledText::SampledText(const SamplingOptions& options, const Tokenizer& tokenizer,
                         const TextEnds& ends, std::span<const int32_t> prompt, int64_t number,
                         TextStart start)
    : ends_(ends),
      sampler_(options, number),
      text_(tokenizer, ends.stops, prompt, start),
      done_(ends.max_tokens == 0) {
  sampler_.see(prompt);
}

void SampledText::advance(std::span<const float> logits) {
  const int32_t token = sampler_.choose(logits, new_tokens().size());
  done_ = std::ranges::find(ends_.tokens, token) != ends_.tokens.end() || text_.add(token) ||
          std::ssize(new_tokens()) == ends_.max_tokens;
}

}  // namespace tessera
