#pragma once

#include <string>
#include <string_view>

#include "launch/support/text/json.h"

namespace tessera::test {

/// How often `part` occurs in `text`.
inline size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// The text between the first `begin` and the next `end`; "" without `begin`.
inline std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const size_t start = text.find(begin);
  if (start == std::string::npos) return "";
  const size_t from = start + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// The JSON that a page embeds for its script.
inline Json json_in(const std::string& page) {
  const std::string element = between(page, "<script type=\"application/json\"", "</script>");
  return Json::parse(element.substr(element.find('>') + 1));
}

}  // namespace tessera::test
