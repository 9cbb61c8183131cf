#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "launch/tokenizers/sentencepiece/sentencepiece_model.h"
#include "launch/tokenizers/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tessera {

/// A unigram or BPE model of SentencePiece, encoded by its library. Invalid UTF-8 becomes U+FFFD.
///
/// If the model allows it (SentencePieceModel::cuts), text is passed to the library word by word.
/// Tokens are the same, but independent of the words around them: over a whole text, the library
/// accumulates a unigram model's scores in fp32, so earlier text can decide between segmentations
/// with equal scores ("aaaaaa" as aaaa aa or aa aaaa). Which one wins, and how a word with a
/// user-defined piece is encoded, also depends on the library's version: 0.2.3 differs from 0.1.97.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Parses the bytes of a .model; `source` names them in messages. Throws if they are invalid.
  SentencePieceTokenizer(std::string bytes, const std::string& source);
  ~SentencePieceTokenizer() override;
  /// Reads a .model file.
  static std::unique_ptr<SentencePieceTokenizer> read(const std::string& path);
  /// Reads an object with a "model" string, the file as base64.
  static std::unique_ptr<SentencePieceTokenizer> from_json(const JsonObject& object);

  std::string_view kind() const override { return "sentencepiece"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(model_.pieces.size()); }
  /// As in the library, user-defined pieces in the text encode to themselves; control pieces are
  /// text.
  std::vector<int32_t> encode(std::string_view text) const override;
  /// Also recognizes control pieces, the unknown piece and the mask. Text right after such a piece
  /// continues its word, as if the piece replaced a word. A model that leaves out extra spaces
  /// drops one before the piece.
  std::vector<int32_t> encode_with_special(std::string_view text) const override;
  /// As the tokenizers of transformers: a part within a text gets no ▁ in front, unless the model
  /// leaves out extra spaces and the part begins a word or follows a special piece.
  std::vector<int32_t> encode_part(std::string_view text,
                                   const TextNeighbors& neighbors) const override;
  size_t last_cut(std::string_view text) const override;
  size_t forced_cut(std::string_view text) const override;
  int64_t count_invalid(std::string_view text) const override;
  /// As in the library: control pieces decode to nothing, the unknown piece to " ⁇ ".
  std::string decode(std::span<const int32_t> tokens) const override;
  bool decodes_piecewise() const override { return false; }
  /// All before the bytes at the end, which may become a character; nothing if the model rewrites
  /// decoded text.
  size_t settled_bytes(std::span<const int32_t> tokens) const override;
  std::string token_text(int32_t token) const override;
  std::optional<int32_t> end_of_document() const override { return end_; }
  SpecialTokens special() const override { return special_; }
  /// Pieces that do not begin with ▁, except the unknown, control and user-defined pieces.
  std::vector<bool> continues_word() const override;
  /// Control and user-defined pieces, the unknown piece and the mask.
  std::vector<int32_t> named_tokens() const override;
  Json to_json() const override;

  /// Whether the model is of the kind that LlamaTokenizer of transformers assumes of every model.
  bool is_llama() const;

 private:
  using Processor = sentencepiece::SentencePieceProcessor;

  void find_special();
  /// Appends the tokens of a text that continues a word, unless it starts with a space. The model
  /// has a prefix.
  void append_continued(std::string_view text, std::vector<int32_t>& tokens) const;
  /// Whether the model puts a ▁ in front of a text.
  bool has_prefix() const;
  /// The model without that.
  const Processor& without_prefix() const;

  SentencePieceModel model_;
  std::string bytes_;  ///< the file
  std::unique_ptr<const Processor> processor_;
  mutable std::once_flag is_loaded_;
  mutable std::unique_ptr<const Processor> without_prefix_;
  std::optional<int32_t> end_;
  SpecialTokens special_;
  std::vector<std::pair<std::string, int32_t>> written_;  ///< pieces found by encode_with_special()
};

}  // namespace tessera
