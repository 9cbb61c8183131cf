// A run takes no more of a GPU's memory than its plan says.

#include <gtest/gtest.h>

#include <ostream>

#include "core/cuda/runtime.h"
#include "launch/data/training_data.h"
#include "launch/devices/open_devices.h"
#include "launch/devices/warm_up.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::SmallKind;

size_t line_of(const std::vector<MemoryPlan::Line>& lines, std::string_view what) {
  for (const MemoryPlan::Line& line : lines) {
    if (line.what == what) return line.bytes;
  }
  return 0;
}

/// A kind of run whose attention cuDNN computes, and whose plans need the largest workspace.
class MemoryPlanOnGpu : public testing::TestWithParam<SmallKind> {
 protected:
  RunConfig config() const {
    RunConfig config = test::small_run(folder_, "run", GetParam());
    config.run.precision = DType::bf16;
    config.model.num_layers = 1;
    config.model.hidden_size = 64;
    config.model.num_heads = 8;
    config.model.seq_length = 512;
    config.model.dropout = config.model.attention_dropout = 0.0;
    config.batch = {9, 9};
    config.eval.batches = 1;
    return config;
  }

  const cuda::Environment on_{"TESSERA_EMULATOR_CUDNN", "1"};
  test::TestFolder folder_;
};

TEST_P(MemoryPlanOnGpu, CoversWhatRunTakes) {
  test::write_small_data(folder_, 60'000);
  run_thread_ranks(1, [&](Communicator& host) {
    const RunConfig run = config();
    const OpenedDevices devices = open_devices({DeviceChoice::cuda, Backend::mpi}, host);
    const ParallelGroups groups = make_parallel_groups(*devices.world);
    const size_t free_bytes = free_bytes_after_warm_up(run, devices, groups);
    Trainer trainer(run, groups, open_training_data(run), devices.device, free_bytes);
    trainer.initialize();
    for (int step = 0; step < 2; ++step) trainer.step();
    trainer.evaluate();
    const size_t taken = free_bytes - cuda::device_info(devices.device.index).free_bytes;
    constexpr size_t kSmallTensors = size_t{1} << 20;  // losses, norms and inputs of graphs
    EXPECT_LE(taken, trainer.memory().total() + kSmallTensors);
    const size_t workspace = line_of(trainer.memory().lines, "workspace");
    EXPECT_GT(workspace, size_t{33} << 20) << "cuDNN needs no more than cuBLASLt: not tested";
    EXPECT_EQ(line_of(trainer.memory_in_use(), "workspace"), workspace) << "it has grown";
  });
}

INSTANTIATE_TEST_SUITE_P(Of, MemoryPlanOnGpu,
                         testing::Values(SmallKind::gpt, SmallKind::gpt_documents,
                                         SmallKind::bert_pairs),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace tessera
