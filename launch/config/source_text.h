#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

/// A place in a text, counted from 1. Line 0 is nowhere in particular.
struct TextPosition {
  int line = 0;
  int column = 0;
};

/// YAML text and the name by which messages call it.
struct SourceText {
  std::string name;
  std::string text;
  bool has_lines = true;  ///< false for the value of a --set, whose name says it all

  /// "name:line:column", or the name alone where the position says nothing.
  std::string at(TextPosition position) const;
};

/// More than any configuration needs; it bounds what a hostile file can cost.
inline constexpr size_t kMaxConfigBytes = 64 * 1024;

/// The text of a file. Throws if it can not be read, is longer than kMaxConfigBytes, is not UTF-8
/// or holds control characters.
SourceText read_config_file(const std::filesystem::path& path);

/// Throws unless the text is UTF-8 of at most kMaxConfigBytes without tabs and control characters
/// other than line ends.
void check_config_text(const SourceText& source);

/// `text` for a message: one line, at most `max_bytes` long, nothing a terminal would act on.
std::string excerpt(std::string_view text, size_t max_bytes = 60);

bool is_control(char c);

}  // namespace tessera
