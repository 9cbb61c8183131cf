#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/tokenizers/sentencepiece/sentencepiece_model.h"
#include "launch/tokenizers/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tessera {

/// A model of SentencePiece, unigram or BPE, by its own library. What is not UTF-8 becomes U+FFFD.
///
/// Where the model lets it (SentencePieceModel::cuts), text is given to the library word by word:
/// the same tokens, but independent of what stands around a word. Of a whole text the library adds
/// up a unigram model's scores from its start on, in fp32, so that what stands before a word can
/// decide between ways to cut it that have equal scores ("aaaaaa" as aaaa aa or as aa aaaa). Which
/// of these it is, and what a word with a user-defined piece in it becomes, also depends on the
/// library's version: 0.2.3 differs from 0.1.97.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Of the bytes of a .model; `source` names them in messages. Throws if they are none.
  SentencePieceTokenizer(std::string bytes, const std::string& source);
  ~SentencePieceTokenizer() override;
  /// Of a .model file.
  static std::unique_ptr<SentencePieceTokenizer> read(const std::string& path);
  /// Of an object with the text "model", the file as base64.
  static std::unique_ptr<SentencePieceTokenizer> from_json(const JsonObject& object);

  std::string_view kind() const override { return "sentencepiece"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(model_.pieces.size()); }
  /// User-defined pieces that are written in the text are themselves, as in the library; control
  /// pieces are text.
  std::vector<int32_t> encode(std::string_view text) const override;
  /// Control pieces, the unknown and the mask too. A space before such a piece is none, and text
  /// right after it goes on with its word, as if a word had been replaced.
  std::vector<int32_t> encode_with_special(std::string_view text) const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view text) const override;
  /// As the library does it: control pieces show as nothing, the unknown piece as " ⁇ ".
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return false; }
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return end_; }
  SpecialTokens special() const override { return special_; }
  /// Those that do not begin with ▁, but for the unknown, control and user-defined pieces.
  std::vector<bool> continues_word() const override;
  Json to_json() const override;

 private:
  using Processor = sentencepiece::SentencePieceProcessor;

  void find_special();

  SentencePieceModel model_;
  std::string bytes_;  ///< the file
  std::unique_ptr<const Processor> processor_;
  std::optional<int32_t> end_;
  SpecialTokens special_;
  std::vector<std::pair<std::string, int32_t>> written_;  ///< what encode_with_special() finds
};

}  // namespace tessera
