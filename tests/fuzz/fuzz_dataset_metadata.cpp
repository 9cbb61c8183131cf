// PREFIX.meta.json

#include "launch/data/indexed/dataset_metadata.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::refuse_or_take([&] {
    const DatasetMetadata metadata = parse_metadata(fuzz::text_of(data, size), "fuzz");
    fuzz::expect(parse_metadata(metadata_text(metadata), "fuzz") == metadata,
                 "metadata does not come back");
  });
  return 0;
}
