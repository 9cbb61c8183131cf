#include "launch/train/micro_steps.h"

#include <gtest/gtest.h>

#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

RunConfig small_config() {
  RunConfig config;
  config.batch.global = 8;
  config.batch.micro = 2;
  return config;
}

/// With so many tensor and data ranks.
std::string why_not(const RunConfig& config, int tensor, int data, Device device = kGpu) {
  std::string why;
  run_thread_ranks(tensor * data, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, tensor);
    const std::string found = why_no_cuda_graph(config, device, groups);
    if (world.rank() == 0) why = found;
  });
  return why;
}

TEST(WhyNoCudaGraph, NothingSpeaksAgainstDropoutOrDataRanks) {
  RunConfig config = small_config();
  config.model.dropout = config.model.attention_dropout = 0.1;
  for (const int data_ranks : {1, 2, 4}) EXPECT_EQ(why_not(config, 1, data_ranks), "");
}

TEST(WhyNoCudaGraph, OnlyGpusHaveThemAndOnlyIfAskedTo) {
  EXPECT_EQ(why_not(small_config(), 1, 1, kCpu), "the ranks compute on CPUs");
  RunConfig off = small_config();
  off.train.cuda_graph = CudaGraph::off;
  EXPECT_EQ(why_not(off, 1, 1), "train.cuda_graph is off");
}

TEST(WhyNoCudaGraph, TensorRanksThatExchangeThroughTheirHostsHaveNone) {
  EXPECT_EQ(why_not(small_config(), 2, 1),
            "tensor ranks exchange within a micro-batch, and through their hosts, which no graph "
            "holds");
}

}  // namespace
}  // namespace tessera
