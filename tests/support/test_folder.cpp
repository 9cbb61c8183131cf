#include "tests/support/test_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace tessera::test {

TestFolder::TestFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tessera_test_XXXXXX").string();
  require(::mkdtemp(name.data()) != nullptr, "mkdtemp of {} failed", name);
  path_ = name;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TestFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera::test
