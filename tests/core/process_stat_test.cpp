#include "core/process_stat.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

namespace tessera {
namespace {

TEST(ProcessStat, IsReadWhateverTheNameOfTheProcess) {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  for (const char* other : {"plain", "a) Z 1 (b", ") Z 1 2"}) {
    prctl(PR_SET_NAME, other);
    const auto stat = read_process_stat("/proc/self/task/" + std::to_string(::gettid()));
    ASSERT_TRUE(stat) << other;
    EXPECT_EQ(stat->state, 'R') << other;
    EXPECT_EQ(stat->parent, ::getppid()) << other;
    EXPECT_GT(stat->start, 0U) << other;
  }
  prctl(PR_SET_NAME, name);
  EXPECT_EQ(read_process_stat(::getpid())->parent, ::getppid());
}

TEST(ProcessStat, IsNothingWithoutAProcess) {
  EXPECT_FALSE(read_process_stat(1 << 30));  // Linux numbers processes up to 2^22
}

}  // namespace
}  // namespace tessera
