// A safetensors file

#include "launch/checkpoint/format/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = fuzz::file_of("model.safetensors", fuzz::text_of(data, size));
  fuzz::refuse_or_take([&] {
    const SafetensorsFile file(path);
    size_t sum = 0;
    for (const auto& [name, entry] : file.entries()) {
      for (const std::byte byte : file.bytes(entry)) sum += static_cast<size_t>(byte);
    }
    fuzz::expect(sum <= 255 * size, "more bytes than the file has");
  });
  return 0;
}
