#include "launch/generation/generated_text.h"

#include <algorithm>

#include "launch/support/text/utf8.h"

namespace tessera {

GeneratedText::GeneratedText(const Tokenizer& tokenizer, const StopStrings& stops,
                             std::span<const int32_t> prompt, TextStart start)
    : tokenizer_(tokenizer),
      start_(start),
      has_stops_(!stops.empty()),
      piecewise_(tokenizer.decodes_piecewise()),
      tokens_(prompt.begin(), prompt.end()),
      prompt_size_(prompt.size()),
      num_decoded_(prompt.size()),
      search_(stops) {}

/// Decodes the tokens that were added since the last call, and searches the bytes that stay.
void GeneratedText::decode() {
  if (num_decoded_ == tokens_.size()) return;
  if (piecewise_) {
    decoded_ += tokenizer_.decode(tokens().subspan(num_decoded_));
    settled_ = decoded_.size();
  } else {
    const bool alone = start_ == TextStart::alone;
    const std::span<const int32_t> read = alone ? new_tokens() : tokens();
    if (num_decoded_ == prompt_size_ && !alone) {
      prompt_text_ = tokenizer_.decode(tokens().first(prompt_size_));
    }
    decoded_ = tokenizer_.decode(read);
    const auto differ = std::ranges::mismatch(prompt_text_, decoded_);
    begin_ = static_cast<size_t>(differ.in1 - prompt_text_.begin());
    const size_t stays = tokenizer_.settled_bytes(read);
    // Whether no later token moves the beginning.
    const bool begins = begin_ < stays || (begin_ == stays && begin_ == prompt_text_.size());
    begin_ -= incomplete_utf8(std::string_view(decoded_).substr(0, begin_));
    // A longer text may have fewer bytes ("n ' t" becomes "n't"), but those that stay, stay.
    settled_ = std::max(settled_, begins ? stays - begin_ : 0);
  }
  num_decoded_ = tokens_.size();
  search_.add(settled().substr(num_searched_));
  num_searched_ = settled_;
}

std::string_view GeneratedText::settled() const {
  return std::string_view(decoded_).substr(begin_, settled_);
}

std::string GeneratedText::part_up_to(size_t end) {
  if (end <= num_taken_) return "";
  std::string part = decoded_.substr(begin_ + num_taken_, end - num_taken_);
  num_taken_ = end;
  return part;
}

bool GeneratedText::add(int32_t token) {
  tokens_.push_back(token);
  if (!has_stops_) return false;
  decode();
  StopSearch whole = search_;
  whole.add(std::string_view(decoded_).substr(begin_ + num_searched_));
  return whole.found().has_value();
}

std::string GeneratedText::take() {
  decode();
  const size_t end = search_.found().value_or(settled_ - search_.open());
  return part_up_to(end - incomplete_utf8(settled().substr(0, end)));
}

std::string GeneratedText::finish() {
  decode();
  settled_ = decoded_.size() - begin_;
  search_.add(settled().substr(num_searched_));
  num_searched_ = settled_;
  return part_up_to(search_.found().value_or(settled_));
}

}  // namespace tessera
