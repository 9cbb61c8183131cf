#include "launch/train/start/run_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

TEST(RunLockTest, RejectsSecondRunUntilFirstEnds) {
  const test::TestFolder folder;
  std::optional<RunLock> first(folder.path().string());
  try {
    const RunLock second(folder.path().string());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in use by another run"), std::string::npos)
        << error.what();
  }
  first.reset();
  const RunLock third(folder.path().string());
}

TEST(RunLockTest, FindsWhatIsInPlaceOfFolder) {
  const test::TestFolder folder;
  const std::filesystem::path run = folder.path() / "run";
  std::filesystem::create_directory(run);
  const RunLock lock(run.string());
  EXPECT_EQ(lock.find(), RunLock::Found::locked);
  std::filesystem::rename(run, folder.path() / "moved");
  EXPECT_EQ(lock.find(), RunLock::Found::nothing);
  std::filesystem::create_directory(run);
  EXPECT_EQ(lock.find(), RunLock::Found::other);
}

}  // namespace
}  // namespace tessera
