#pragma once

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// One token per byte, and 256 for the end of a document. Has no special tokens.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 257; }
  std::vector<int32_t> encode(std::string_view text) const override;
  size_t last_cut(std::string_view text) const override { return text.size(); }
  size_t forced_cut(std::string_view text) const override { return text.size(); }
  int64_t count_invalid(std::string_view) const override { return 0; }
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return true; }
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return kEnd; }
  SpecialTokens special() const override { return {}; }
  std::vector<bool> continues_word() const override;
  std::vector<int32_t> named_tokens() const override { return {kEnd}; }
  Json to_json() const override { return {{"kind", kind()}}; }

 private:
  static constexpr int32_t kEnd = 256;
};

}  // namespace tessera
