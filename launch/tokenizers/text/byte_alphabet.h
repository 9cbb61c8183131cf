#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's alphabet for bytes (Radford et al. 2019, bytes_to_unicode() of
// https://github.com/openai/gpt-2/blob/master/src/encoder.py): printable Latin-1 characters stand
// for their own byte, and U+0100 onward for the other bytes, in order. A space is "Ġ", a line end
// "Ċ".

namespace tessera {

/// Returns all bytes in the order of their characters, which is the order of their tokens in
/// GPT-2's vocabulary: '!' is first.
const std::array<uint8_t, 256>& bytes_in_alphabet_order();

/// Returns bytes as characters of the alphabet, in UTF-8.
std::string to_alphabet(std::string_view bytes);

/// Returns the bytes for characters of the alphabet; nothing if `text` has any other character.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace tessera
