// When NCCL fails, a run ends on all ranks, even while a CUDA graph is captured.

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/emulator/nccl/faults.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

/// A micro-step has a dozen calls of the tensor ranks. The first and the second of step 0 run, the
/// third is captured, and so is the first of step 1.
class NcclFaultsInTraining : public testing::TestWithParam<int> {};

TEST_P(NcclFaultsInTraining, EndAllRanks) {
  if (!test::on_nccl()) GTEST_SKIP() << "this needs NCCL: set TESSERA_TEST_BACKEND=nccl";
  test::TestFolder folder;
  test::write_small_data(folder);
  const RunConfig config = test::small_run(folder, "run", test::SmallKind::gpt);
  const emulator::NcclFault fault(1, GetParam(), ncclSystemError);
  test::expect_error(
      [&] {
        test::train_whole(config, {{2, 1}, 3});
      },
      {"NCCL failed on rank 1 of 2: unhandled system error"});
}

INSTANTIATE_TEST_SUITE_P(AtCall, NcclFaultsInTraining, testing::Values(0, 5, 16, 28, 32, 44));

}  // namespace
}  // namespace tessera
