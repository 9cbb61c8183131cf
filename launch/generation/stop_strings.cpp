#include "launch/generation/stop_strings.h"

#include <algorithm>

#include "core/error.h"

namespace tessera {
namespace {

/// The length of the longest beginning of `pattern` that ends the text whose end matched `matched`
/// bytes of it, after the text continues with `next`.
size_t extended(const std::string& pattern, const std::vector<size_t>& shorter, size_t matched,
                char next) {
  while (matched > 0 && pattern[matched] != next) {
    matched = shorter[matched - 1];
  }
  return pattern[matched] == next ? matched + 1 : 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) {
  for (std::string& text : strings) {
    require(!text.empty(), "--stop is empty: it is a text of at least one byte");
    std::vector<size_t> shorter = {0};
    for (size_t i = 1; i < text.size(); ++i) {
      shorter.push_back(extended(text, shorter, shorter.back(), text[i]));
    }
    patterns_.push_back({std::move(text), std::move(shorter)});
  }
}

std::string_view StopStrings::cut(std::string_view text) const {
  StopSearch search(*this);
  search.add(text);
  return text.substr(0, search.found().value_or(text.size()));
}

StopSearch::StopSearch(const StopStrings& stops)
    : patterns_(stops.patterns_), matched_(stops.patterns_.size()) {}

void StopSearch::add(std::string_view piece) {
  if (patterns_.empty()) return;
  for (const char next : piece) {
    if (found_) return;
    ++size_;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      const auto& [text, shorter] = patterns_[i];
      matched_[i] = extended(text, shorter, matched_[i], next);
      if (matched_[i] < text.size()) continue;
      found_ = std::min(found_.value_or(size_), size_ - text.size());
    }
  }
}

size_t StopSearch::open() const { return matched_.empty() ? 0 : std::ranges::max(matched_); }

}  // namespace tessera
