// The tokenizer of a checkpoint, of any kind

#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/fuzz/fuzz_tokenizer.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::refuse_or_take([&] {
    const auto tokenizer = tokenizer_from_json(parse_json(text, "fuzz"), "fuzz");
    const auto tokens = tokenizer->encode(text.substr(text.size() / 2));
    for (const int32_t token : tokens) {
      fuzz::expect(0 <= token && token < tokenizer->vocab_size(), "a token out of range");
    }
    tokenizer->decode(tokens);
    fuzz::expect_cut_holds(*tokenizer, text.substr(text.size() / 2));
    const auto again = tokenizer_from_json(tokenizer->to_json(), "again");
    fuzz::expect(identity_of(*again) == identity_of(*tokenizer), "a tokenizer does not come back");
  });
  return 0;
}
