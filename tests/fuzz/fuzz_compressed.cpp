// A file that may be gzip or zstd

#include "launch/support/files/file_pieces.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = fuzz::file_of("compressed", fuzz::text_of(data, size));
  fuzz::refuse_or_take([&] {
    for_each_piece(path, [&](std::string_view piece) {
      fuzz::expect(!piece.empty() && piece.size() <= kPieceBytes, "a piece of no such size");
    });
  });
  return 0;
}
