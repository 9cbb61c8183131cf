#include "launch/devices/device_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr GpuBuild kCpuBuild{false, false};
constexpr GpuBuild kEmulated{true, false};
constexpr GpuBuild kGpuBuild{true, true};

/// A rank that sees the GPUs `addresses`.
RankGpus rank_on(const std::string& host, std::vector<std::string> addresses) {
  RankGpus rank{host, std::move(addresses), ""};
  if (rank.addresses.empty()) rank.why_none = "there is no NVIDIA driver";
  return rank;
}

/// `ranks` ranks that see the same `gpus` GPUs.
std::vector<RankGpus> ranks_on(const std::string& host, int ranks, int gpus) {
  std::vector<std::string> addresses;
  for (int i = 0; i < gpus; ++i) addresses.push_back(fmt::format("0000:{:02x}:00.0", i));
  return std::vector<RankGpus>(static_cast<size_t>(ranks), rank_on(host, addresses));
}

std::vector<RankGpus> operator+(std::vector<RankGpus> a, const std::vector<RankGpus>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

DevicePlan plan(DeviceChoice device, Backend backend, const std::vector<RankGpus>& ranks,
                GpuBuild build = kGpuBuild) {
  return plan_devices(device, backend, build, ranks);
}

std::string plan_error(DeviceChoice device, Backend backend, const std::vector<RankGpus>& ranks,
                       GpuBuild build = kGpuBuild) {
  return error_of([&] { plan(device, backend, ranks, build); });
}

// --- which rank gets which GPU

TEST(DevicePlan, AssignsOwnGpuToEachRankOfHost) {
  const DevicePlan found =
      plan(DeviceChoice::automatic, Backend::automatic, ranks_on("a", 2, 4) + ranks_on("b", 4, 4));
  EXPECT_TRUE(found.on_gpus);
  EXPECT_TRUE(found.nccl);
  EXPECT_THAT(found.gpu_of_rank, ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_EQ(found.gpus, 6);
  EXPECT_EQ(found.hosts, 2);
  EXPECT_EQ(found.note, "");
}

TEST(DevicePlan, CountsInterleavedRanksByHost) {
  std::vector<RankGpus> ranks;
  for (int i = 0; i < 3; ++i) ranks = ranks + ranks_on("a", 1, 3) + ranks_on("b", 1, 3);
  EXPECT_THAT(plan(DeviceChoice::cuda, Backend::nccl, ranks).gpu_of_rank,
              ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(DevicePlan, KeepsGpusBoundByLauncher) {
  const DevicePlan found = plan(DeviceChoice::automatic, Backend::automatic,
                                {rank_on("a", {"x"}), rank_on("a", {"y"}), rank_on("a", {"z"})});
  EXPECT_THAT(found.gpu_of_rank, ElementsAre(0, 0, 0));
  EXPECT_EQ(found.gpus, 3);
  EXPECT_TRUE(found.nccl);
}

TEST(DevicePlan, IdentifiesGpusByAddress) {
  const DevicePlan found = plan(DeviceChoice::automatic, Backend::automatic,
                                {rank_on("a", {"x", "y"}), rank_on("a", {"x", "y"})});
  EXPECT_THAT(found.gpu_of_rank, ElementsAre(0, 1));
  const DevicePlan reversed = plan(DeviceChoice::automatic, Backend::automatic,
                                   {rank_on("a", {"x", "y"}), rank_on("a", {"y", "x"})});
  EXPECT_THAT(reversed.gpu_of_rank, ElementsAre(0, 0)) << "rank 1 calls y its GPU 0";
  EXPECT_EQ(reversed.gpus, 2);
}

TEST(DevicePlan, MpiRanksShareGpusEvenly) {
  const DevicePlan found = plan(DeviceChoice::cuda, Backend::mpi, ranks_on("a", 5, 2));
  EXPECT_THAT(found.gpu_of_rank, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(found.gpus, 2);
  EXPECT_FALSE(found.nccl);
  EXPECT_EQ(found.note, "") << "the run requested it";
}

// --- which backend connects them

TEST(DevicePlan, AutoExplainsWhyNotNccl) {
  const DevicePlan shared =
      plan(DeviceChoice::automatic, Backend::automatic, ranks_on("a", 4, 4) + ranks_on("b", 4, 2));
  EXPECT_FALSE(shared.nccl);
  EXPECT_EQ(shared.note,
            "4 ranks share 2 GPUs on b, so they exchange tensors through the host's memory; NCCL "
            "needs a GPU for each rank");
  const DevicePlan emulated =
      plan(DeviceChoice::automatic, Backend::automatic, ranks_on("a", 2, 2), kEmulated);
  EXPECT_TRUE(emulated.on_gpus);
  EXPECT_FALSE(emulated.nccl);
  EXPECT_THAT(emulated.note, HasSubstr("this build has no NCCL"));
}

TEST(DevicePlan, SingleRankUsesNcclOnlyOnRequest) {
  const DevicePlan alone = plan(DeviceChoice::automatic, Backend::automatic, ranks_on("a", 1, 1));
  EXPECT_TRUE(alone.on_gpus);
  EXPECT_FALSE(alone.nccl);
  EXPECT_EQ(alone.note, "");
  EXPECT_TRUE(plan(DeviceChoice::automatic, Backend::nccl, ranks_on("a", 1, 1)).nccl);
}

TEST(DevicePlan, RejectsNcclOnSharedGpu) {
  EXPECT_EQ(plan_error(DeviceChoice::automatic, Backend::nccl, ranks_on("a", 4, 1)),
            "parallel.backend is nccl, but 4 ranks share 1 GPU on a, and NCCL needs a GPU for each "
            "rank: start no more ranks than there are GPUs, or set parallel.backend to mpi, which "
            "lets ranks share GPUs");
}

TEST(DevicePlan, SharesGpuOverNcclOnlyInTestsThatRequestIt) {
  const GpuBuild may_share{true, true, true};
  const DevicePlan shared = plan(DeviceChoice::cuda, Backend::nccl, ranks_on("a", 4, 2), may_share);
  EXPECT_TRUE(shared.nccl);
  EXPECT_THAT(shared.gpu_of_rank, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(shared.note, "a test: 4 ranks share 2 GPUs on a over NCCL, which is slow");
  EXPECT_FALSE(plan(DeviceChoice::cuda, Backend::automatic, ranks_on("a", 4, 2), may_share).nccl);
}

// --- on CPUs

TEST(DevicePlan, UsesCpusOnRequestOrInCpuBuild) {
  for (const GpuBuild build : {kCpuBuild, kEmulated, kGpuBuild}) {
    const DevicePlan asked =
        plan(DeviceChoice::cpu, Backend::automatic, ranks_on("a", 2, 2), build);
    EXPECT_FALSE(asked.on_gpus);
    EXPECT_THAT(asked.gpu_of_rank, IsEmpty());
    EXPECT_EQ(asked.note, "");
  }
  const DevicePlan found =
      plan(DeviceChoice::automatic, Backend::mpi, ranks_on("a", 2, 0), kCpuBuild);
  EXPECT_FALSE(found.on_gpus);
  EXPECT_EQ(found.note, "") << "a CPU build gives no reason";
}

TEST(DevicePlan, AutoExplainsWhyNoGpu) {
  const DevicePlan found =
      plan(DeviceChoice::automatic, Backend::automatic, ranks_on("a", 2, 0) + ranks_on("b", 1, 0));
  EXPECT_FALSE(found.on_gpus);
  EXPECT_FALSE(found.nccl);
  EXPECT_EQ(found.note, "no GPU is used. On a: there is no NVIDIA driver");
}

TEST(DevicePlan, RejectsUnavailableDevice) {
  EXPECT_EQ(plan_error(DeviceChoice::cuda, Backend::automatic, ranks_on("a", 2, 0)),
            "run.device is cuda, but no rank has a GPU that it can use. On a: there is no NVIDIA "
            "driver. Choose "
            "auto or cpu");
  EXPECT_THAT(plan_error(DeviceChoice::automatic, Backend::nccl, ranks_on("a", 2, 0)),
              HasSubstr("parallel.backend is nccl, but no rank has a GPU"));
  EXPECT_THAT(plan_error(DeviceChoice::cuda, Backend::mpi, ranks_on("a", 2, 0), kCpuBuild),
              HasSubstr("this build of Tessera has no CUDA support"));
  EXPECT_THAT(plan_error(DeviceChoice::automatic, Backend::nccl, ranks_on("a", 2, 2), kEmulated),
              HasSubstr("this build of Tessera has no NCCL"));
  EXPECT_THAT(plan_error(DeviceChoice::cpu, Backend::nccl, ranks_on("a", 2, 2)),
              HasSubstr("run.device is cpu"));
}

TEST(DevicePlan, NamesHostWithoutGpus) {
  for (const DeviceChoice device : {DeviceChoice::automatic, DeviceChoice::cuda}) {
    EXPECT_EQ(plan_error(device, Backend::automatic,
                         ranks_on("a", 2, 4) + ranks_on("b", 2, 0) + ranks_on("c", 1, 0)),
              "rank 0 on a has 4 GPUs, but rank 2 on b has none: there is no NVIDIA driver. All "
              "ranks compute on the same kind of device, so start none on b, c, or choose cpu as "
              "run.device");
  }
  EXPECT_FALSE(
      plan(DeviceChoice::cpu, Backend::automatic, ranks_on("a", 2, 4) + ranks_on("b", 2, 0))
          .on_gpus);
}

// --- text

TEST(DevicePlan, RankGpusRoundTripAsText) {
  for (const RankGpus& rank : {rank_on("a", {}), rank_on("b", {"x"}), rank_on("c", {"x", "y"})}) {
    const RankGpus back = parse_rank_gpus(to_string(rank));
    EXPECT_EQ(back.host, rank.host);
    EXPECT_EQ(back.addresses, rank.addresses);
    EXPECT_EQ(back.why_none, rank.why_none);
  }
  EXPECT_THROW(parse_rank_gpus("a"), Error);
}

}  // namespace
}  // namespace tessera
