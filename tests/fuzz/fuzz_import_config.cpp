// config.json of a folder from Hugging Face

#include "launch/huggingface/import/import_config.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::refuse_or_take(
      [&] { import_config(parse_json(fuzz::text_of(data, size), "fuzz"), "fuzz", std::nullopt); });
  return 0;
}
