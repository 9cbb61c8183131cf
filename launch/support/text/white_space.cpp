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

std::string_view trimmed(std::string_view text) {
  const auto find = [](auto&& holds) { return std::ranges::find_if(kWhiteSpace, holds); };
  const auto begins = [&](std::string_view space) { return text.starts_with(space); };
  const auto ends = [&](std::string_view space) { return text.ends_with(space); };
  for (auto at = find(begins); at != kWhiteSpace.end(); at = find(begins)) {
    text.remove_prefix(at->size());
  }
  for (auto at = find(ends); at != kWhiteSpace.end(); at = find(ends)) {
    text.remove_suffix(at->size());
  }
  return text;
}

}  // namespace tessera
