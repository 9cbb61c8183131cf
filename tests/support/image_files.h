#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/data/images/image_set.h"

namespace tessera::test {

/// The bytes of an IDX file with these dimensions and elements.
std::string idx(const std::vector<uint32_t>& dimensions, const std::string& elements);

/// Writes a PNG file with 1, 3 or 4 (red, green, blue, alpha) channels, and folders for it.
void write_png(const std::filesystem::path& path, const Pixels& image);

}  // namespace tessera::test
