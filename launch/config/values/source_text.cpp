#include "launch/config/values/source_text.h"

#include <cstdint>
#include <utility>

#include "core/error.h"
#include "launch/support/files/piece_reader.h"
#include "launch/support/files/replace.h"
#include "launch/support/files/small_file.h"

namespace tessera {
namespace {

/// Bytes of the UTF-8 character at the start of `text` (not empty), or 0 if it is invalid: stray
/// and missing continuation bytes, overlong forms, surrogates, beyond U+10FFFF (RFC 3629, section
/// 4).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

std::string escaped_byte(char c) { return fmt::format("\\x{:02x}", static_cast<uint8_t>(c)); }

}  // namespace

bool is_control(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }

std::string SourceText::at(TextPosition position) const {
  if (!has_lines || position.line == 0) return name;
  return fmt::format("{}:{}:{}", name, position.line, position.column);
}

SourceText read_config_file(const std::filesystem::path& path) {
  const std::string name = excerpt(path.string(), 1000);
  std::error_code ignored;
  require(!std::filesystem::is_directory(path, ignored),
          "{} is a directory; give the path of a YAML file", name);
  remember_input(path.string());
  std::string text = read_small_file(path.string(), kMaxConfigBytes);
  // Positions do not count a byte order mark.
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  SourceText source{name, std::move(text)};
  check_config_text(source);
  return source;
}

void check_config_text(const SourceText& source) {
  const std::string& text = source.text;
  require(text.size() <= kMaxConfigBytes,
          "{}: longer than {} bytes, which no configuration needs; is this the right file?",
          source.name, kMaxConfigBytes);
  TextPosition position{1, 1};
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t length = utf8_length(std::string_view(text).substr(i));
    require(length != 0, "{}: the byte {} is not UTF-8; save the file as UTF-8 text",
            source.at(position), escaped_byte(c));
    require(c != '\t', "{}: a tab; YAML is indented with spaces", source.at(position));
    // yaml-cpp treats byte 4 as the end of the file and would silently drop the rest.
    const bool line_end = c == '\n' || text.compare(i, 2, "\r\n") == 0;
    require(line_end || !is_control(c), "{}: the control character {} is not allowed in YAML",
            source.at(position), escaped_byte(c));
    position = c == '\n' ? TextPosition{position.line + 1, 1}
                         : TextPosition{position.line, position.column + 1};
    i += length;
  }
}

std::string excerpt(std::string_view text, size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const bool printable = length != 0 && !is_control(text[0]);
    const std::string piece =
        printable ? std::string(text.substr(0, length)) : escaped_byte(text[0]);
    if (result.size() + piece.size() > max_bytes) return result + "...";
    result += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace tessera
