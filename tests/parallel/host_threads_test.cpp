#include "parallel/host/host_threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "parallel/host/cpu_quota.h"

namespace tessera {
namespace {

std::set<int> cpus(int begin, int end) {
  std::set<int> result;
  for (int cpu = begin; cpu < end; ++cpu) result.insert(cpu);
  return result;
}

RankCpus rank_on(const std::string& host, std::set<int> bound, int host_cpus) {
  return {host, std::move(bound), cpus(0, host_cpus), std::nullopt, std::nullopt};
}

TEST(HostThreads, ShareCpusOfHost) {
  const std::vector<RankCpus> ranks(4, rank_on("a", cpus(0, 8), 8));
  for (int rank = 0; rank < 4; ++rank) {
    const HostThreads chosen = choose_host_threads(ranks, rank);
    EXPECT_EQ(chosen.threads, 2);
    EXPECT_EQ(chosen.summary, "2 threads (8 CPUs of this host shared by 4 ranks)");
  }
}

TEST(HostThreads, SingleRankUsesAllCpus) {
  const HostThreads chosen = choose_host_threads({rank_on("a", cpus(0, 12), 12)}, 0);
  EXPECT_EQ(chosen.threads, 12);
  EXPECT_EQ(chosen.summary, "12 threads (12 CPUs of this host)");
}

TEST(HostThreads, IgnoreOtherHosts) {
  const std::vector<RankCpus> ranks = {rank_on("a", cpus(0, 4), 4), rank_on("b", cpus(0, 6), 6),
                                       rank_on("b", cpus(0, 6), 6)};
  EXPECT_EQ(choose_host_threads(ranks, 0).threads, 4);
  EXPECT_EQ(choose_host_threads(ranks, 2).threads, 3);
}

TEST(HostThreads, SharesAddUpToWholeCpus) {
  for (int n = 1; n <= 50; ++n) {  // n × 1/n in floating point may be less than 1
    const std::vector<RankCpus> ranks(static_cast<size_t>(n), rank_on("a", cpus(0, 3 * n), 3 * n));
    EXPECT_EQ(choose_host_threads(ranks, 0).threads, 3) << n;
  }
  const std::vector<RankCpus> three(3, rank_on("a", cpus(0, 8), 8));
  EXPECT_EQ(choose_host_threads(three, 0).threads, 2) << "8/3 rounded down";
}

TEST(HostThreads, MoreRanksThanCpusGetOneEach) {
  const std::vector<RankCpus> ranks(4, rank_on("a", cpus(0, 2), 2));
  const HostThreads chosen = choose_host_threads(ranks, 3);
  EXPECT_EQ(chosen.threads, 1);
  EXPECT_EQ(chosen.summary,
            "1 thread (2 CPUs of this host shared by 4 ranks: more ranks than CPUs)");
}

TEST(HostThreads, SplitPartlyOverlappingMasks) {
  // CPUs 0 to 3 belong to rank 0 only, 4 to 7 are shared, 8 to 15 belong to rank 1 only.
  const std::vector<RankCpus> ranks = {rank_on("a", cpus(0, 8), 16), rank_on("a", cpus(4, 16), 16)};
  EXPECT_EQ(choose_host_threads(ranks, 0).threads, 6);
  EXPECT_EQ(choose_host_threads(ranks, 1).threads, 10);
}

TEST(HostThreads, ReportWastefulBinding) {
  const std::vector<RankCpus> ranks = {rank_on("a", {0}, 64), rank_on("a", {1}, 64)};
  const HostThreads chosen = choose_host_threads(ranks, 1);
  EXPECT_EQ(chosen.threads, 1);
  EXPECT_EQ(chosen.summary,
            "1 thread (bound to 1 of 64 CPUs by the launcher; mpirun --bind-to none would give "
            "32)");
}

TEST(HostThreads, DoNotReportUsefulBinding) {
  const std::vector<RankCpus> ranks = {rank_on("a", cpus(0, 32), 64),
                                       rank_on("a", cpus(32, 64), 64)};
  EXPECT_EQ(choose_host_threads(ranks, 0).summary, "32 threads (32 CPUs of this host)");
}

TEST(HostThreads, ShareContainerQuota) {
  std::vector<RankCpus> ranks(4, rank_on("a", cpus(0, 64), 64));
  for (RankCpus& rank : ranks) rank.quota = 10.5;
  const HostThreads chosen = choose_host_threads(ranks, 0);
  EXPECT_EQ(chosen.threads, 2);
  EXPECT_EQ(chosen.summary, "2 threads (a limit of 10.5 CPUs on this container shared by 4 ranks)");
  for (RankCpus& rank : ranks) rank.quota = 0.5;
  EXPECT_EQ(choose_host_threads(ranks, 0).threads, 1);
  for (RankCpus& rank : ranks) rank.quota = 1000;
  EXPECT_EQ(choose_host_threads(ranks, 0).threads, 16);
  // No hint if the quota would not let the rank use the CPUs that it is not bound to.
  for (RankCpus& rank : ranks) rank.quota = 4;
  for (RankCpus& rank : ranks) rank.bound = {0, 1, 2, 3};
  EXPECT_EQ(choose_host_threads(ranks, 0).summary,
            "1 thread (4 CPUs of this host shared by 4 ranks)");
}

TEST(HostThreads, UserSettingWins) {
  std::vector<RankCpus> ranks(4, rank_on("a", cpus(0, 2), 2));
  ranks[1].user = 7;
  ranks[1].quota = 1;
  EXPECT_EQ(choose_host_threads(ranks, 1).threads, 7);
  EXPECT_EQ(choose_host_threads(ranks, 1).summary, "7 threads (OMP_NUM_THREADS)");
  EXPECT_EQ(choose_host_threads(ranks, 0).threads, 1);
}

TEST(RankCpus, RoundTripsThroughText) {
  RankCpus sent = rank_on("node-7.example", {0, 5, 1023}, 3);
  sent.quota = 2.5;
  const RankCpus received = parse_rank_cpus(to_string(sent));
  EXPECT_EQ(received.host, sent.host);
  EXPECT_EQ(received.bound, sent.bound);
  EXPECT_EQ(received.unbound, sent.unbound);
  EXPECT_EQ(received.quota, sent.quota);
  EXPECT_EQ(received.user, sent.user);
  const RankCpus bare = parse_rank_cpus(to_string(RankCpus{"a", {1}, {}, {}, 4}));
  EXPECT_TRUE(bare.unbound.empty());
  EXPECT_EQ(bare.quota, std::nullopt);
  EXPECT_EQ(bare.user, 4);
  EXPECT_THROW(parse_rank_cpus("a\n0 1"), Error);
}

TEST(RankCpus, DetectsThisHost) {
  unsetenv("OMP_NUM_THREADS");
  const RankCpus found = find_rank_cpus();
  EXPECT_FALSE(found.host.empty());
  EXPECT_FALSE(found.bound.empty());
  EXPECT_EQ(found.user, std::nullopt);
  setenv("OMP_NUM_THREADS", "3,1", 1);
  EXPECT_EQ(find_rank_cpus().user, 3);
  for (const char* wrong : {"many", "0", "-2", "3x"}) {
    setenv("OMP_NUM_THREADS", wrong, 1);
    EXPECT_THROW(find_rank_cpus(), Error) << wrong;
  }
  unsetenv("OMP_NUM_THREADS");
}

// --- control groups, as files in a folder

class CpuQuota : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() /
      ("tessera_cpu_quota_" + std::to_string(getpid()) + "_" +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CpuQuota, MissingFilesMeanNoLimit) { EXPECT_EQ(find_cpu_quota(root_), std::nullopt); }

TEST_F(CpuQuota, CgroupV2UsesTightestLimitOnPath) {
  write("proc/self/cgroup", "0::/slice/job/step\n");
  write("sys/fs/cgroup/slice/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(find_cpu_quota(root_), std::nullopt);
  write("sys/fs/cgroup/slice/job/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/slice/cpu.max", "800000 100000\n");
  EXPECT_EQ(find_cpu_quota(root_), 2.5);
}

TEST_F(CpuQuota, CgroupV1FallsBackToContainerRoot) {
  write("proc/self/cgroup", "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n3:cpuset:/\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_cpu_quota(root_), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(find_cpu_quota(root_), 1.5);
}

TEST_F(CpuQuota, UnreadableFilesMeanNoLimit) {
  write("proc/self/cgroup", "0::/a\nnonsense\n::\n");
  write("sys/fs/cgroup/a/cpu.max", "lots\n");
  EXPECT_EQ(find_cpu_quota(root_), std::nullopt);
  write("sys/fs/cgroup/a/cpu.max", "100000 0\n");
  EXPECT_EQ(find_cpu_quota(root_), std::nullopt);
}

}  // namespace
}  // namespace tessera
