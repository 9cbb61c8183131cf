#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "launch/generation/generated_text.h"
#include "launch/generation/sampler.h"
#include "launch/generation/stop_strings.h"

namespace tessera {

/// Conditions that end a generated text.
struct TextEnds {
  std::vector<int32_t> tokens = {};  ///< each of them ends it, and is not a part of it
  int64_t max_tokens = 0;
  StopStrings stops = {};
};

/// A text that is generated token by token.
class SampledText {
 public:
  /// `number` is that of the text (Sampler). `tokenizer` and `ends` must outlive this.
  SampledText(const SamplingOptions& options, const Tokenizer& tokenizer, const TextEnds& ends,
              std::span<const int32_t> prompt, int64_t number,
              TextStart start = TextStart::after_prompt);

  bool done() const { return done_; }
  /// How many tokens may follow.
  int64_t most_left() const { return done_ ? 0 : ends_.max_tokens - std::ssize(new_tokens()); }

  /// Chooses the next token from logits (V). Must not be called once done().
  void advance(std::span<const float> logits);

  std::span<const int32_t> tokens() const { return text_.tokens(); }  ///< the prompt's first
  std::span<const int32_t> new_tokens() const { return text_.new_tokens(); }
  GeneratedText& text() { return text_; }

 private:
  const TextEnds& ends_;
  Sampler sampler_;
  GeneratedText text_;
  bool done_;
};

/// Called with a text each time that it has changed.
using OnToken = std::function<void(SampledText& text)>;

}  // namespace tessera
