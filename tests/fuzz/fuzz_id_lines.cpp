// Lines of ids, as prepare reads them without a tokenizer

#include "launch/data/prepare/id_lines.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kVocabulary = 1000;
  const TextLines lines{"fuzz", 1, std::string(fuzz::text_of(data, size))};
  fuzz::refuse_or_take([&] {
    const TokenPart part = read_id_lines(lines, kVocabulary);
    for (const int32_t id : part.tokens) {
      fuzz::expect(0 <= id && id < kVocabulary, "an id out of range");
    }
    fuzz::expect(part.pieces.size() == part.marks.size(), "a mark without a piece");
    fuzz::expect(part.tokens.empty() || part.marks.back().at == part.tokens.size(),
                 "ids after the last document");
  });
  return 0;
}
