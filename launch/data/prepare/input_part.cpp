#include "launch/data/prepare/input_part.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "launch/support/files/piece_reader.h"

namespace tessera {
namespace {

class PartEncoder {
 public:
  explicit PartEncoder(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), unknown_(tokenizer.special().unknown) {}

  /// Cuts long text at the same places as PartBuilder does for text that arrives in pieces.
  void append(std::string_view text) {
    while (text.size() >= kPieceBytes) {
      const size_t cut = cut_of(tokenizer_, text.substr(0, kPieceBytes));
      append_piece(text.substr(0, cut));
      text.remove_prefix(cut);
    }
    append_piece(text);
  }

  void mark(Mark::Ends ends) { result_.marks.push_back({result_.tokens.size(), ends}); }

  TokenPart take() { return std::move(result_); }

 private:
  void append_piece(std::string_view text) {
    if (text.empty()) return;
    std::vector<int32_t> tokens = tokenizer_.encode(text);
    result_.bytes += static_cast<int64_t>(text.size());
    result_.invalid += tokenizer_.count_invalid(text);
    if (unknown_) result_.unknown += std::count(tokens.begin(), tokens.end(), *unknown_);
    if (result_.tokens.empty()) {
      result_.tokens = std::move(tokens);
    } else {
      result_.tokens.insert(result_.tokens.end(), tokens.begin(), tokens.end());
    }
  }

  const Tokenizer& tokenizer_;
  const std::optional<int32_t> unknown_;
  TokenPart result_;
};

}  // namespace

size_t InputPart::size() const {
  if (const auto* lines = std::get_if<TextLines>(&content)) return lines->text.size();
  const auto& part = std::get<TextPart>(content);
  return part.text.size() + part.marks.size() * sizeof(Mark);
}

size_t cut_of(const Tokenizer& tokenizer, std::string_view text) {
  size_t cut = tokenizer.last_cut(text);
  if (cut == 0) cut = tokenizer.forced_cut(text);
  require(0 < cut && cut <= text.size(), "tokenizer {} cuts {} bytes of text at {}",
          tokenizer.kind(), text.size(), cut);
  return cut;
}

TokenPart encode_part(const Tokenizer& tokenizer, const TextPart& part) {
  PartEncoder encoder(tokenizer);
  size_t begin = 0;
  for (const Mark& mark : part.marks) {
    encoder.append(std::string_view(part.text).substr(begin, mark.at - begin));
    encoder.mark(mark.ends);
    begin = mark.at;
  }
  return encoder.take();
}

}  // namespace tessera
