// The next micro-batch of images is copied to the GPU while it works on the current one.

#include <gtest/gtest.h>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/staged/staged_communicator.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

/// The loss of a step after others that nobody waited for.
double loss_on(Device device) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  RunConfig config = test::small_run(folder, "run", test::SmallKind::images);
  config.batch.micro = 1;
  double loss = 0.0;
  run_thread_ranks(1, [&](Communicator& host) {
    if (device.is_cuda()) cuda::use_device(device.index);
    const auto world = device.is_cuda() ? make_staged_communicator(host.split(0, host.rank()))
                                        : host.split(0, host.rank());
    const ParallelGroups groups = make_parallel_groups(*world);
    Trainer trainer(config, groups, open_training_data(config), device);
    trainer.initialize();
    constexpr int kSteps = 4;
    for (int i = 0; i < kSteps; ++i) trainer.step();
    loss = trainer.result().loss();
  });
  return loss;
}

// As late as possible, so that a missing wait would show.
TEST(StagedBatches, HaveTheirOwnContentsInEachMicroBatch) {
  const double expected = loss_on(kCpu);
  for (const char* lazy : {"0", "1"}) {
    const cuda::Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    EXPECT_NEAR(loss_on({DeviceType::cuda, 0}), expected, 1e-5) << lazy;
  }
}

}  // namespace
}  // namespace tessera
