#pragma once

#include <filesystem>

namespace tessera::test {

/// The repository, or where its tests' files have been put: the variable TESSERA_SOURCE_DIR.
std::filesystem::path source_folder();

}  // namespace tessera::test
