#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
// One of its assertions does not hold for some sizes, such as 400 × 300 to 224: that the weights of
// a pixel have a sum of nearly 1 even before they are divided by it.
#define STBIR_ASSERT(condition) ((void)0)
#include <stb/stb_image_resize.h>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/images/image_dataset.h"

namespace tessera {

// A triangle that is wider for smaller results, like Pillow's bilinear filter.
void ImageEncoder::resize(Pixels& image) const {
  const int64_t size = config_.image_size;
  if (image.rows == size && image.columns == size) return;
  std::vector<uint8_t> resized(static_cast<size_t>(size * size * image.channels));
  const int done = stbir_resize_uint8_generic(
      image.values.data(), narrow<int>(image.columns), narrow<int>(image.rows), 0, resized.data(),
      narrow<int>(size), narrow<int>(size), 0, narrow<int>(image.channels),
      STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP, STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR,
      nullptr);
  require(done == 1, "an image of {} × {} pixels cannot be resized: out of memory", image.rows,
          image.columns);
  image.rows = image.columns = size;
  image.values = std::move(resized);
}

}  // namespace tessera
