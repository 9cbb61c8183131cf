// Any text for BERT's words, and where it is cut

#include <algorithm>

#include "launch/tokenizers/text/bert_text.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

namespace {

std::string words_of(std::string_view text, BertCasing casing) {
  std::string words;
  for_each_bert_word(text, casing, [&](std::string_view word) {
    fuzz::expect(!word.empty() && count_invalid_utf8(word) == 0, "a word that is none");
    words.append(word) += '\n';
  });
  return words;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  for (const BertCasing casing : {kUncased, kCased}) {
    const size_t cut = last_bert_word_end(text.substr(0, size / 2));
    const std::string parts =
        words_of(text.substr(0, cut), casing) + words_of(text.substr(cut), casing);
    fuzz::expect(parts == words_of(text, casing), "the parts of a text have other words");
  }
  fuzz::expect(count_invalid_utf8(replace_invalid_utf8(text)) == 0, "not replaced");
  fuzz::expect(last_character_start(text) < std::max<size_t>(size, 1), "no character at the end");
  return 0;
}
