#pragma once

#include "launch/tokenizers/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

namespace tessera::fuzz {

/// What Tokenizer::last_cut() promises, of the first half of a text that the other half follows.
inline void expect_cut_holds(const Tokenizer& tokenizer, std::string_view text) {
  const size_t cut = tokenizer.last_cut(text.substr(0, text.size() / 2));
  auto parts = tokenizer.encode(text.substr(0, cut));
  const auto rest = tokenizer.encode(text.substr(cut));
  parts.insert(parts.end(), rest.begin(), rest.end());
  expect(parts == tokenizer.encode(text), "the parts of a text have other tokens than the whole");
}

}  // namespace tessera::fuzz
