#pragma once

#include <string>
#include <vector>

#include "launch/support/files/temporary_folder.h"

namespace tessera::test {

/// A temporary folder of a test.
class TestFolder : public TemporaryFolder {
 public:
  TestFolder() : TemporaryFolder("tessera_test") {}

  std::string operator/(const std::string& name) const { return (path() / name).string(); }

  /// The names of its contents, sorted.
  std::vector<std::string> names() const;
};

}  // namespace tessera::test
