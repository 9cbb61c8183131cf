// The YAML file of a run

#include "launch/config/load_config.h"
#include "launch/config/validate.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::refuse_or_take([&] { parse_config("fuzz", fuzz::text_of(data, size)); });
  return 0;
}
