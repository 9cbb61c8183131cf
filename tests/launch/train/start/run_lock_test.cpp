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

}  // namespace
}  // namespace tessera
