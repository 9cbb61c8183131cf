#include "launch/support/text/white_space.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

/// All characters for which Python's str.isspace() holds.
constexpr std::array<std::string_view, 29> kWhiteSpace = {
    "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",
    "\x1f",   " ",      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
    "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

}  // namespace

std::string_view trimmed_left(std::string_view text) {
  const auto begins = [&](std::string_view space) { return text.starts_with(space); };
  for (const std::string_view* at = nullptr;
       (at = std::ranges::find_if(kWhiteSpace, begins)) != kWhiteSpace.end();) {
    text.remove_prefix(at->size());
  }
  return text;
}

std::string_view trimmed_right(std::string_view text) {
  const auto ends = [&](std::string_view space) { return text.ends_with(space); };
  for (const std::string_view* at = nullptr;
       (at = std::ranges::find_if(kWhiteSpace, ends)) != kWhiteSpace.end();) {
    text.remove_suffix(at->size());
  }
  return text;
}

std::string_view trimmed(std::string_view text) { return trimmed_right(trimmed_left(text)); }

}  // namespace tessera
