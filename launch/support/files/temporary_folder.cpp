#include "launch/support/files/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/error.h"

namespace tessera {

TemporaryFolder::TemporaryFolder(std::string_view prefix) {
  std::string name =
      (std::filesystem::temp_directory_path() / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail("the temporary folder {} cannot be created: {}", name,
         std::generic_category().message(errno));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tessera
