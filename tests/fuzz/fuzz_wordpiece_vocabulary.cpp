// vocab.txt of a WordPiece tokenizer

#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::string path = fuzz::file_of("vocab.txt", text);
  fuzz::refuse_or_take([&] {
    const WordPieceTokenizer tokenizer(WordPieceVocabulary::read(path), kUncased);
    tokenizer.decode(tokenizer.encode(text));
    tokenizer.encode_with_special(text);
  });
  return 0;
}
