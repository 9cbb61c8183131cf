#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// A picture to log.
struct Picture {
  std::string tag;                ///< "attention/layer_0/head_1"
  int64_t width = 0, height = 0;  ///< pixels
  std::string png;                ///< the file
};

}  // namespace tessera
