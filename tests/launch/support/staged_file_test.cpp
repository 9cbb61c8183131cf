#include "launch/support/files/staged_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

TEST(StagedFile, FollowsNoLinkAtTemporaryName) {
  const test::TestFolder folder;
  std::filesystem::create_symlink(folder / "precious", folder / "out.tmp");
  test::expect_error([&] { StagedFile(folder / "out", Replace::refuse); },
                     {"out.tmp: is a symbolic link"});
  EXPECT_FALSE(std::filesystem::exists(folder / "precious"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "out.tmp"));
}

TEST(StagedFile, ReadsAndTruncatesWhatWasWritten) {
  const test::TestFolder folder;
  StagedFile file(folder / "out", Replace::refuse);
  file.write("abcdef");
  file.truncate(4);
  file.write("xyz");
  std::array<std::byte, 3> read = {};
  file.read(3, read);
  EXPECT_EQ(std::memcmp(read.data(), "dxy", 3), 0);
  test::expect_error([&] { file.read(5, read); }, {"out.tmp: ends at byte 7"});
  file.close();
  file.publish();
  EXPECT_EQ(std::filesystem::file_size(folder / "out"), 7u);
}

}  // namespace
}  // namespace tessera
