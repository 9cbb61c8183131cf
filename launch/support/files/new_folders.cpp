#include "launch/support/files/new_folders.h"

#include <system_error>

#include "launch/support/files/folders.h"

namespace tessera {

namespace fs = std::filesystem;

NewFolders::NewFolders(const fs::path& folder) {
  fs::path missing = folder;
  for (; !missing.empty() && !fs::exists(missing); missing = missing.parent_path()) {
    made_.push_back(missing);
  }
  make_folders(folder);
}

NewFolders::~NewFolders() {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only removes empty folders
}

}  // namespace tessera
