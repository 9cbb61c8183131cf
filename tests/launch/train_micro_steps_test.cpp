#include <gtest/gtest.h>

#include "launch/train/micro_steps.h"
#include "parallel/thread_communicator.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

RunConfig config_without_dropout() {
  RunConfig config;
  config.model.dropout = config.model.attention_dropout = 0.0;
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

TEST(WhyNoCudaGraph, NothingSpeaksAgainstAFewMicroBatchesWithoutDropout) {
  EXPECT_EQ(why_not(config_without_dropout(), 1, 1), "");
  EXPECT_EQ(why_not(config_without_dropout(), 1, 2), "");
}

TEST(WhyNoCudaGraph, OnlyGpusHaveThemAndOnlyIfAskedTo) {
  EXPECT_EQ(why_not(config_without_dropout(), 1, 1, kCpu), "the ranks compute on CPUs");
  RunConfig off = config_without_dropout();
  off.train.cuda_graph = CudaGraph::off;
  EXPECT_EQ(why_not(off, 1, 1), "train.cuda_graph is off");
}

TEST(WhyNoCudaGraph, DropoutDrawsOtherBitsInEveryStep) {
  RunConfig config = config_without_dropout();
  config.model.attention_dropout = 0.1;
  EXPECT_EQ(why_not(config, 1, 1),
            "dropout drops other elements in every step (model.dropout is 0, "
            "model.attention_dropout 0.1)");
  std::swap(config.model.dropout, config.model.attention_dropout);
  EXPECT_NE(why_not(config, 1, 1), "");
}

TEST(WhyNoCudaGraph, TensorRanksExchangeInEveryMicroBatch) {
  EXPECT_EQ(why_not(config_without_dropout(), 2, 1), "tensor ranks exchange within a micro-batch");
}

TEST(WhyNoCudaGraph, SomeMicroBatchHasToBeWithoutTheSumOverDataRanks) {
  EXPECT_EQ(why_not(config_without_dropout(), 1, 4),
            "a step has one micro-batch, during which its gradients are summed over the data "
            "ranks");
  RunConfig one = config_without_dropout();
  one.batch.micro = one.batch.global;
  EXPECT_EQ(why_not(one, 1, 1), "");
}

}  // namespace
}  // namespace tessera
