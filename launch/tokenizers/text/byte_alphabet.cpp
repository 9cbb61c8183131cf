#include "launch/tokenizers/text/byte_alphabet.h"

namespace tessera {
namespace {

constexpr size_t kCharacters = 0x144;  // the last is U+0143

/// Returns whether the byte stands for itself in the alphabet.
constexpr bool is_itself(size_t byte) {
  return (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) ||
         (0xAE <= byte && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint16_t, 256> character{};    ///< by byte
  std::array<int16_t, kCharacters> byte{};  ///< by character, or -1
  std::array<uint8_t, 256> in_order{};
};

constexpr Alphabet make_alphabet() {
  Alphabet made;
  for (auto& byte : made.byte) byte = -1;
  uint16_t next = 0x100;
  for (size_t byte = 0; byte < 256; ++byte) {
    made.character[byte] = is_itself(byte) ? static_cast<uint16_t>(byte) : next++;
    made.byte[made.character[byte]] = static_cast<int16_t>(byte);
  }
  size_t count = 0;
  for (const int16_t byte : made.byte) {
    if (byte >= 0) made.in_order[count++] = static_cast<uint8_t>(byte);
  }
  return made;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

const std::array<uint8_t, 256>& bytes_in_alphabet_order() { return kAlphabet.in_order; }

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) {
    const uint16_t code = kAlphabet.character[static_cast<unsigned char>(byte)];
    if (code >= 0x80) text.push_back(static_cast<char>(0xC0 | code >> 6));
    text.push_back(static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F)));
  }
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    size_t code = static_cast<unsigned char>(text[at]);
    if (code >= 0x80) {  // all of these have two bytes in UTF-8
      const bool starts_two = 0xC2 <= code && code <= 0xDF;
      if (!starts_two || ++at == text.size()) return std::nullopt;
      const size_t low = static_cast<unsigned char>(text[at]);
      if ((low & 0xC0) != 0x80) return std::nullopt;
      code = (code & 0x1F) << 6 | (low & 0x3F);
    }
    if (code >= kCharacters || kAlphabet.byte[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[code]));
  }
  return bytes;
}

}  // namespace tessera
