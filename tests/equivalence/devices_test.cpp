// A GPU computes what CPU ranks compute, and either resumes from the other's checkpoints. Runs on
// the emulated GPU, or on a real one with TESSERA_TEST_DEVICE=cuda.

#include <gtest/gtest.h>

#include "launch/checkpoint/find.h"
#include "launch/generation/continuation.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/predict/text_model.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

// As between two layouts: fp32 sums of a few hundred terms in a different order.
constexpr double kTolerance = 2e-4;

// The second step has moments, and the third the full learning rate.
constexpr int64_t kSteps = 3;

class OnDevices : public testing::TestWithParam<SmallKind> {
 protected:
  void SetUp() override {
    if (!test::on_gpu()) GTEST_SKIP() << "there is no second device: set TESSERA_TEST_DEVICE=cuda";
    test::write_small_data(folder_);
  }
  RunConfig config() const { return test::small_run(folder_, "run", GetParam()); }

  test::TestFolder folder_;
};

TEST_P(OnDevices, GpuMatchesCpu) {
  const WholeRun cpu = test::train_whole(config(), {{1, 1}, kSteps, false, false, kCpu});
  const WholeRun gpu =
      test::train_whole(config(), {{2, 1}, kSteps, false, false, test::test_device()});
  test::expect_same_bits(gpu.initial_weights, cpu.initial_weights, "initial weights");
  test::expect_equal(gpu, cpu, kTolerance);
}

TEST_P(OnDevices, CheckpointsResumeOnOtherDevice) {
  const WholeRun whole = test::train_whole(config(), {{1, 1}, 3, false, false, kCpu});
  RunConfig run = config();
  run.run.dir = folder_ / "moving";
  const WholeRun first = test::train_whole(run, {{1, 1}, 1, false, true, kCpu});
  const WholeRun second = test::train_whole(run, {{2, 1}, 1, true, true, test::test_device()});
  test::expect_same_bits(second.initial_weights, first.weights, "weights on the GPU");
  const WholeRun third = test::train_whole(run, {{1, 1}, 1, true, false, kCpu});
  test::expect_same_bits(third.initial_weights, second.weights, "weights back on the CPU");
  test::expect_close(third.weights, whole.weights, kTolerance, "weights");
}

/// Text generated greedily by a trained GPT on two tensor ranks.
std::vector<int32_t> continuation(const std::string& run_dir, Device device) {
  std::vector<int32_t> written;
  test::run_device_ranks(2, [&](Communicator& world) {
    const auto newest = newest_intact_checkpoint(
        run_dir, [](const std::string&) {}, world);
    Checkpoint checkpoint = Checkpoint::open(newest.value());
    TextModel model(checkpoint, world, device);
    SamplingOptions greedy;
    greedy.temperature = 0.0;
    greedy.vocab_size = test::kSmallVocabulary;
    const std::vector<int32_t> prompt = {5, 6, 7, 8, 9};
    const IdTokenizer tokenizer(test::kSmallVocabulary);
    const TextEnds ends = {{}, 40};
    SampledText text(greedy, tokenizer, ends, prompt, 0);
    continue_texts(model, {&text, 1});
    if (world.rank() == 0) written.assign(text.new_tokens().begin(), text.new_tokens().end());
  });
  return written;
}

TEST(OnDevicesToo, GeneratesSameTextOnGpuAndCpu) {
  if (!test::on_gpu()) GTEST_SKIP() << "there is no second device: set TESSERA_TEST_DEVICE=cuda";
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::prefix_lm, SmallKind::planes}) {
    const test::TestFolder folder;
    test::write_small_data(folder);
    const RunConfig run = test::small_run(folder, "run", kind);
    test::train_whole(run, {{1, 1}, 4, false, true, kCpu});
    const auto on_cpu = continuation(run.run.dir, kCpu);
    EXPECT_EQ(on_cpu.size(), 40u);
    EXPECT_EQ(continuation(run.run.dir, test::test_device()), on_cpu);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevices, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

}  // namespace
}  // namespace tessera
