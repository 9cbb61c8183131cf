// manifest.json of a checkpoint. Its last line is a checksum, which no chance would find: the input
// is the rest.

#include <span>

#include "launch/checkpoint/format/manifest.h"
#include "launch/support/files/checksum.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::refuse_or_take([&] { parse_manifest(fuzz::text_of(data, size), "fuzz"); });
  fuzz::refuse_or_take([&] {
    std::string text(fuzz::text_of(data, size));
    const std::string checksum = checksum_of(std::as_bytes(std::span(text)));
    text += "  \"checksum\": \"" + checksum + "\"\n}\n";
    const Manifest manifest = parse_manifest(text, "fuzz");
    parse_manifest(manifest_text(manifest), "what was read");
  });
  return 0;
}
