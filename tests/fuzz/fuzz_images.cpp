// The first byte of the input says what the rest is: an IDX file of images, whose labels are right;
// a file in CIFAR-10's format; or a PNG or JPEG file.

#include "launch/data/images/image_set.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

namespace {

void read_first(const ImageSet& images) {
  Pixels pixels;
  images.read(0, images.format().channels, pixels);
  const auto numbers = pixels.rows * pixels.columns * pixels.channels;
  fuzz::expect(std::ssize(pixels.values) == numbers, "an image has all of its pixels");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  fuzz::refuse_or_take([&] {
    switch (data[0] % 3) {
      case 0: {
        const std::string path = fuzz::file_of("images-idx3-ubyte", bytes);
        fuzz::file_of("labels-idx1-ubyte", std::string_view("\0\0\x08\x01\0\0\0\x02\x01\0", 10));
        read_first(*open_images(path));
        break;
      }
      case 1:
        read_first(*open_images(fuzz::file_of("images.bin", bytes)));
        break;
      default: {
        const Pixels pixels = read_image_file(fuzz::file_of("image", bytes), 3);
        const auto numbers = pixels.rows * pixels.columns * 3;
        fuzz::expect(std::ssize(pixels.values) == numbers, "an image has all of its pixels");
      }
    }
  });
  return 0;
}
