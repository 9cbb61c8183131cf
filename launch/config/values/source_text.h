#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// A position in a text, counted from 1. Line 0 means no position.
struct TextPosition {
  int line = 0;
  int column = 0;
};

/// YAML text and its name in messages.
struct SourceText {
  std::string name;
  std::string text;
  bool has_lines = true;  ///< false for the value of a --set, whose name suffices

  /// "name:line:column", or only the name without a position.
  std::string at(TextPosition position) const;
};

/// More than any configuration needs; bounds the cost of a hostile file.
inline constexpr size_t kMaxConfigBytes = 64 * 1024;

/// The text of a file. Throws if it cannot be read, is longer than kMaxConfigBytes, is not UTF-8 or
/// has control characters.
SourceText read_config_file(const std::filesystem::path& path);

/// Throws unless the text is UTF-8 of at most kMaxConfigBytes without tabs and control characters
/// other than line ends.
void check_config_text(const SourceText& source);

/// `text` for a message: one line of at most `max_bytes` bytes, without terminal control
/// characters.
std::string excerpt(std::string_view text, size_t max_bytes = 60);

bool is_control(char c);

}  // namespace tessera
