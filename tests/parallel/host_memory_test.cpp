#include "parallel/host/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/test_folder.h"

namespace tessera {
namespace {

/// /proc and /sys as files in a folder.
class HostMemory : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::optional<size_t> available() const { return find_available_memory(folder_.path()); }

  test::TestFolder folder_;
};

TEST_F(HostMemory, ReadsMemAvailable) {
  EXPECT_EQ(available(), std::nullopt);
  write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    700 kB\n");
  EXPECT_EQ(available(), 700 * 1024);
}

TEST_F(HostMemory, CgroupV2UsesTightestLimitOnPath) {
  write("proc/meminfo", "MemAvailable: 700 kB\n");
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/memory.max", "max\n");
  write("sys/fs/cgroup/slice/job/memory.current", "100000\n");
  EXPECT_EQ(available(), 700 * 1024);
  write("sys/fs/cgroup/slice/memory.max", "500000\n");
  write("sys/fs/cgroup/slice/memory.current", "400000\n");
  EXPECT_EQ(available(), 100000);
  // Cached file data can be reclaimed.
  write("sys/fs/cgroup/slice/memory.stat",
        "anon 250000\nfile 150000\ninactive_file 100000\nactive_file 50000\n");
  EXPECT_EQ(available(), 250000);
  write("sys/fs/cgroup/slice/memory.current", "800000\n");  // above the limit, which was lowered
  EXPECT_EQ(available(), 0);
}

TEST_F(HostMemory, CgroupV1FallsBackToContainerRoot) {
  write("proc/meminfo", "MemAvailable: 700 kB\n");
  write("proc/self/cgroup", "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n");
  EXPECT_EQ(available(), 700 * 1024);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/memory.stat",
        "inactive_file 7\nactive_file 7\ntotal_inactive_file 20000\ntotal_active_file 0\n");
  EXPECT_EQ(available(), 120000);
}

TEST_F(HostMemory, UnreadableFilesMeanNoLimit) {
  write("proc/meminfo", "MemAvailable: lots\n");
  write("proc/self/cgroup", "0::/a\nnonsense\n");
  write("sys/fs/cgroup/a/memory.max", "lots\n");
  EXPECT_EQ(available(), std::nullopt);
}

TEST(HostMemoryHere, ReportsAvailableMemory) { EXPECT_GT(find_available_memory().value_or(0), 0u); }

}  // namespace
}  // namespace tessera
