#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's way of writing bytes as text (Radford et al. 2019, bytes_to_unicode() of
// https://github.com/openai/gpt-2/blob/master/src/encoder.py): a printable character of Latin-1
// stands for its own byte, and U+0100 and those after it for the other bytes, in order. A space is
// "Ġ", a line end "Ċ".

namespace tessera {

/// All bytes in the order of the characters that stand for them, which is that of their tokens in
/// GPT-2's vocabulary: '!' is the first.
const std::array<uint8_t, 256>& bytes_in_alphabet_order();

/// Bytes as characters of the alphabet; valid UTF-8.
std::string to_alphabet(std::string_view bytes);

/// The bytes that characters of the alphabet stand for; nothing if there is any other character.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace tessera
