#pragma once

#include <filesystem>

namespace tessera::test {

/// The repository, or the folder with the tests' files given by TESSERA_SOURCE_DIR.
std::filesystem::path source_folder();

}  // namespace tessera::test
