#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Turns text into tokens and back. Stateless: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Tokens are 0 to vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;

  /// The tokens of any bytes. Text may be cut anywhere: encode(a) followed by encode(b) is
  /// encode(a + b), so that long text is encoded piece by piece. Adds no end of document.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// The text to show for tokens; the end of a document shows as nothing. Throws, naming it, on a
  /// token outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  /// The token that follows each document and that no text contains.
  virtual int32_t end_of_document() const = 0;

  /// The name that make_tokenizer() knows it by.
  virtual std::string_view name() const = 0;
};

/// A token for each byte, and 256 for the end of a document.
class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 257; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  int32_t end_of_document() const override { return 256; }
  std::string_view name() const override { return "byte"; }
};

/// The names that make_tokenizer() knows.
std::span<const std::string_view> tokenizer_names();

/// Throws, listing the names that exist, if there is no tokenizer of this name.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name);

}  // namespace tessera
