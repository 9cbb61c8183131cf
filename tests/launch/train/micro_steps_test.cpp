#include "launch/train/micro_steps.h"

#include <gtest/gtest.h>

#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

StepOptions small_config() {
  StepOptions config;
  config.batch.global = 8;
  config.batch.micro = 2;
  return config;
}

/// The reason on `tensor` × `data` ranks, or "" if there is none.
std::string why_not(const StepOptions& config, int tensor, int data, Device device = kGpu) {
  std::string why;
  run_thread_ranks(tensor * data, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, {.tensor = tensor});
    const auto found = cuda_graph_unsupported_reason(config, device, groups);
    if (world.rank() == 0) why = found.value_or("");
  });
  return why;
}

TEST(CudaGraphUnsupportedReason, IsEmptyForDropoutAndDataRanks) {
  StepOptions config = small_config();
  config.model.dropout = config.model.attention_dropout = 0.1;
  for (const int data_ranks : {1, 2, 4}) EXPECT_EQ(why_not(config, 1, data_ranks), "");
}

TEST(CudaGraphUnsupportedReason, NamesCpuAndDisabledOption) {
  EXPECT_EQ(why_not(small_config(), 1, 1, kCpu), "the ranks compute on CPUs");
  StepOptions off = small_config();
  off.train.cuda_graph = CudaGraph::off;
  EXPECT_EQ(why_not(off, 1, 1), "train.cuda_graph is off");
}

TEST(CudaGraphUnsupportedReason, NamesTensorRanksThatExchangeThroughHosts) {
  EXPECT_EQ(why_not(small_config(), 2, 1),
            "ranks exchange through their hosts, which a graph cannot contain");
}

}  // namespace
}  // namespace tessera
