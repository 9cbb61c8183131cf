#include "launch/support/files/staged_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

TEST(StagedFile, FollowsNoLinkAtTemporaryName) {
  const test::TestFolder folder;
  std::filesystem::create_symlink(folder / "precious", folder / "out.tmp");
  test::expect_error([&] { StagedFile(folder / "out"); }, {"out.tmp: is a symbolic link"});
  EXPECT_FALSE(std::filesystem::exists(folder / "precious"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "out.tmp"));
}

}  // namespace
}  // namespace tessera
