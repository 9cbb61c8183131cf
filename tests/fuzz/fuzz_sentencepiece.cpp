// A model of SentencePiece; its end is also a text for it.

#include <algorithm>

#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::refuse_or_take([&] {
    const SentencePieceTokenizer model(std::string(bytes), "fuzz");
    for (const std::string_view text : {bytes.substr(size - std::min<size_t>(size, 200)),
                                        std::string_view(" a\xE2\x96\x81 b\n")}) {
      const auto tokens = model.encode(text);
      model.decode(tokens);
      model.encode_with_special(text);
      const size_t cut = model.last_cut(text);
      auto parts = model.encode(text.substr(0, cut));
      const auto rest = model.encode(text.substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      fuzz::expect(parts == tokens, "the parts of a text have other tokens than the whole");
    }
    for (int32_t i = 0; i < model.vocab_size(); ++i) model.token_text(i);
  });
  return 0;
}
