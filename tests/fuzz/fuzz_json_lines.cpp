// Documents as JSON lines, with and without lines that are malformed

#include "launch/support/input/json_lines.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TextLines lines{"fuzz", 1, std::string(fuzz::text_of(data, size))};
  for (const Sentences sentences : {Sentences::none, Sentences::line}) {
    fuzz::refuse_or_take([&] { read_json_lines(lines, {"text", sentences, false}); });
    const JsonDocuments all = read_json_lines(lines, {"text", sentences, true});
    fuzz::expect(all.text.text.size() <= size, "more text than the lines have");
  }
  return 0;
}
