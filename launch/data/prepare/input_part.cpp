#include "launch/data/prepare/input_part.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "launch/support/files/piece_reader.h"

namespace tessera {
namespace {

class PartEncoder {
 public:
  PartEncoder(const Tokenizer& tokenizer, const MinHash* near)
      : tokenizer_(tokenizer), near_(near), unknown_(tokenizer.special().unknown) {}

  /// Appends the text before a mark. Cuts long text at the same places as PartBuilder does for text
  /// that arrives in pieces.
  void append(std::string_view text, Mark::Ends ends) {
    while (text.size() >= kPieceBytes) {
      const size_t cut = cut_of(tokenizer_, text.substr(0, kPieceBytes));
      append_piece(text.substr(0, cut), Mark::Ends::nothing);
      text.remove_prefix(cut);
    }
    append_piece(text, ends);
  }

  TokenPart take() { return std::move(result_); }

 private:
  void append_piece(std::string_view text, Mark::Ends ends) {
    TokenPiece piece;
    if (!text.empty()) {
      std::vector<int32_t> tokens = tokenizer_.encode(text);
      piece.counts.bytes = static_cast<int64_t>(text.size());
      piece.counts.invalid = tokenizer_.count_invalid(text);
      if (unknown_) piece.counts.unknown = std::count(tokens.begin(), tokens.end(), *unknown_);
      piece.hash = hash128_of(std::as_bytes(std::span(text)));
      result_.bytes += piece.counts.bytes;
      append_tokens(std::move(tokens));
    }
    if (near_ != nullptr) add_signature(text);
    result_.pieces.push_back(piece);
    result_.marks.push_back({result_.tokens.size(), ends});
  }

  void append_tokens(std::vector<int32_t> tokens) {
    if (result_.tokens.empty()) {
      result_.tokens = std::move(tokens);
    } else {
      result_.tokens.insert(result_.tokens.end(), tokens.begin(), tokens.end());
    }
  }

  void add_signature(std::string_view text) {
    const size_t begin = result_.signatures.size();
    result_.signatures.resize(begin + near_->size(), MinHash::kNone);
    near_->add(text, std::span(result_.signatures).subspan(begin));
  }

  const Tokenizer& tokenizer_;
  const MinHash* near_;
  const std::optional<int32_t> unknown_;
  TokenPart result_;
};

}  // namespace

TextCounts& TextCounts::operator+=(const TextCounts& other) {
  bytes += other.bytes;
  unknown += other.unknown;
  invalid += other.invalid;
  return *this;
}

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

TokenPart encode_part(const Tokenizer& tokenizer, const TextPart& part, const MinHash* near) {
  PartEncoder encoder(tokenizer, near);
  size_t begin = 0;
  for (const Mark& mark : part.marks) {
    encoder.append(std::string_view(part.text).substr(begin, mark.at - begin), mark.ends);
    begin = mark.at;
  }
  return encoder.take();
}

}  // namespace tessera
