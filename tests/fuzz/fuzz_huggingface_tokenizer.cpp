// tokenizer.json, as the Python package `tokenizers` writes it

#include "launch/tokenizers/huggingface_json.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/fuzz/fuzz_tokenizer.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::refuse_or_take([&] {
    const auto tokenizer = huggingface_tokenizer(parse_json(text, "fuzz"), "fuzz");
    tokenizer->decode(tokenizer->encode(text));
    tokenizer->encode_with_special(text);
    fuzz::expect_cut_holds(*tokenizer, text);
    const auto again = tokenizer_from_json(tokenizer->to_json(), "again");
    fuzz::expect(identity_of(*again) == identity_of(*tokenizer), "a tokenizer does not come back");
  });
  return 0;
}
