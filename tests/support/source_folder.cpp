#include "tests/support/source_folder.h"

#include <cstdlib>

namespace tessera::test {

std::filesystem::path source_folder() {
  const char* moved = std::getenv("TESSERA_SOURCE_DIR");
  return moved == nullptr ? TESSERA_SOURCE_DIR : moved;
}

}  // namespace tessera::test
