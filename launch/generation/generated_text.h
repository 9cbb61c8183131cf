#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/generation/stop_strings.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// How a generated text begins.
enum class TextStart : uint8_t {
  after_prompt,  ///< after what it has in common with the prompt's text
  alone,         ///< as it would without a prompt, as replies that were tokenized alone
};

/// The text of a sequence while its tokens are generated. It ends before the first stop string in
/// it, and can be taken piece by piece.
class GeneratedText {
 public:
  /// `tokenizer` and `stops` must outlive this.
  GeneratedText(const Tokenizer& tokenizer, const StopStrings& stops,
                std::span<const int32_t> prompt, TextStart start = TextStart::after_prompt);

  /// Appends a token. Returns whether the text now contains a stop string, after which no token
  /// follows.
  bool add(int32_t token);

  /// Returns the next part of the text that no later token changes: whole characters, if the text
  /// is UTF-8, and nothing that may be the beginning of a stop string.
  std::string take();

  /// Returns the rest, after the last token. The parts together are the text, whatever the calls of
  /// take() before.
  std::string finish();

  /// The tokens of the prompt and those that were added.
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const int32_t> new_tokens() const { return tokens().subspan(prompt_size_); }

 private:
  void decode();
  std::string_view settled() const;
  std::string part_up_to(size_t end);

  const Tokenizer& tokenizer_;
  TextStart start_;
  bool has_stops_, piecewise_;
  std::vector<int32_t> tokens_;
  size_t prompt_size_;
  std::string prompt_text_;  // unless piecewise_, once a token follows
  std::string
      decoded_;  // the first num_decoded_ tokens; if piecewise_ or alone, without the prompt
  size_t num_decoded_;
  size_t begin_ = 0;         // where the text begins in decoded_
  size_t settled_ = 0;       // bytes of the text that stay
  size_t num_searched_ = 0;  // bytes of the text that search_ has seen
  size_t num_taken_ = 0;     // bytes of the text
  StopSearch search_;
};

}  // namespace tessera
