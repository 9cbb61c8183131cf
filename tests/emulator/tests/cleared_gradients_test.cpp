// Steps that are launched as CUDA graphs clear no gradients that their products can overwrite.

#include <gtest/gtest.h>

#include "tests/emulator/include/emulator.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;

class ClearedGradients : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::on_gpu()) GTEST_SKIP() << "CUDA graphs need a GPU";
    test::write_small_data(folder_);
  }

  /// Bytes that a run of `steps` sets to zero on the GPU.
  static uint64_t zeroed_bytes(const RunConfig& run, Layout layout, int64_t steps) {
    const uint64_t before = emulator::zeroed_bytes();
    EXPECT_GT(test::train_whole(run, {layout, steps}).graph_launches, 0);
    return emulator::zeroed_bytes() - before;
  }

  test::TestFolder folder_;
};

// Four micro-batches per data rank, two, and one, which is the first and the last.
TEST_F(ClearedGradients, OnlyEmbeddingsWithoutAProduct) {
  const RunConfig run = test::small_run(folder_, "run", SmallKind::gpt);
  const auto positions =
      static_cast<uint64_t>(4 * run.model.seq_length * run.model.hidden_size);  // fp32
  constexpr uint64_t kNumbers = 256;  // sums of losses and squares, and inputs of graphs
  for (const Layout layout : {Layout{1, 1}, Layout{1, 2}, Layout{1, 4}}) {
    SCOPED_TRACE(to_string(layout));
    const uint64_t two_steps = zeroed_bytes(run, layout, 4) - zeroed_bytes(run, layout, 2);
    const uint64_t per_step = two_steps / static_cast<uint64_t>(2 * layout.ranks());
    EXPECT_GE(per_step, positions);
    EXPECT_LE(per_step, positions + kNumbers);
  }
}

}  // namespace
}  // namespace tessera
