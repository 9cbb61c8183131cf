#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The kind of data without a tokenizer.
inline constexpr std::string_view kNoTokenizer = "none";

/// Stands for the missing tokenizer of data that consists of ids. Its texts are ids in decimal,
/// separated by white space, so labeled texts may be ids, too.
class IdTokenizer final : public Tokenizer {
 public:
  /// Ids are 0 to vocab_size - 1. Throws if a special token is not one of them, or has an unknown
  /// name.
  explicit IdTokenizer(int64_t vocab_size, SpecialTokenIds special = {});

  std::string_view kind() const override { return kNoTokenizer; }
  int64_t vocab_size() const override { return vocab_size_; }
  /// Throws as parse_ids() does.
  std::vector<int32_t> encode(std::string_view text) const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override { return text.size(); }
  int64_t count_invalid(std::string_view) const override { return 0; }
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return false; }
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return id_of("eos"); }
  SpecialTokens special() const override;
  std::vector<bool> continues_word() const override { return {}; }
  Json to_json() const override;

  const SpecialTokenIds& special_ids() const { return special_; }

 private:
  std::optional<int32_t> id_of(std::string_view name) const;

  int64_t vocab_size_;
  SpecialTokenIds special_;
};

/// The inverse of IdTokenizer::to_json(). Treats the object as untrusted.
std::unique_ptr<IdTokenizer> id_tokenizer_from_json(const JsonObject& object);

/// Whether this stands for a missing tokenizer.
inline bool is_none(const Tokenizer& tokenizer) { return tokenizer.kind() == kNoTokenizer; }

/// Parses ids in decimal, separated by white space. Throws a message that starts with `where` and
/// names the word, counted from 1, that is not an id from 0 to vocab_size - 1.
std::vector<int32_t> parse_ids(std::string_view text, int64_t vocab_size, std::string_view where);

}  // namespace tessera
