// Algorithms that are chosen by their speed, which differs from GPU to GPU.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/memory.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "launch/data/training_data.h"
#include "launch/support/files/small_file.h"
#include "launch/train/product_tuning.h"
#include "launch/train/stored_algorithms.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/staged/staged_communicator.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/tensors.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

class ProductTuning : public testing::Test {
 protected:
  ProductTuning() { setenv("TESSERA_EMULATOR_CUBLASLT", "several", /*replace=*/1); }
  ~ProductTuning() override {
    unsetenv("TESSERA_EMULATOR_CUBLASLT");
    cuda::use_algorithms({}, {});
  }
};

OwnedTensor on_gpu(const Tensor& host, Device device) {
  OwnedTensor copied(host.shape(), host.dtype(), device);
  copy(host, copied.tensor);
  cuda::synchronize();
  return copied;
}

/// The bytes of a product of the same numbers on every rank.
std::string product(Device device) {
  const auto random = [&](const Shape& shape, uint64_t seed) {
    return on_gpu(test::random_tensor(shape, DType::bf16, seed).tensor, device);
  };
  const OwnedTensor x = random({64, 32}, 1), w = random({48, 32}, 2);
  const OwnedTensor y({64, 48}, DType::bf16, device), out({64, 48}, DType::bf16);
  linear_forward(x.tensor, w.tensor, {}, y.tensor);
  copy(y.tensor, out.tensor);
  cuda::synchronize();
  return {static_cast<const char*>(out.tensor.raw()), out.tensor.bytes()};
}

/// The product of product().
std::vector<cuda::ProductKey> products_to_time() {
  return {{64, 48, 32, MatrixLayout::rows, MatrixLayout::columns, DType::bf16, DType::bf16,
           cuda::Epilogue::none, /*accumulate=*/false, /*alignment=*/16}};
}

// As on two hosts: an algorithm of one version may be none of the other.
TEST_F(ProductTuning, RanksAgreeOnTheFirstIfVersionsDiffer) {
  ASSERT_GE(cuda::device_count(), 2);
  const cuda::Environment versions("TESSERA_EMULATOR_CUBLASLT_VERSIONS", "130002,130100");
  run_thread_ranks(2, [](Communicator& world) {
    cuda::use_device(world.rank());
    const Device device{DeviceType::cuda, static_cast<int8_t>(world.rank())};
    const OwnedTensor scratch({1 << 20}, DType::u8, device);
    const std::string first = product(device);
    const std::string note = agree_on_algorithms(products_to_time(), scratch.tensor, world);
    EXPECT_NE(note.find("cuBLASLt 13.1.0"), std::string::npos) << note;
    EXPECT_TRUE(product(device) == first);
  });
}

TEST_F(ProductTuning, RanksAgreeThoughTheirTimesDiffer) {
  ASSERT_GE(cuda::device_count(), 2);
  run_thread_ranks(2, [](Communicator& world) {
    cuda::use_device(world.rank());
    const Device device{DeviceType::cuda, static_cast<int8_t>(world.rank())};
    const OwnedTensor scratch({1 << 20}, DType::u8, device);
    const std::vector<cuda::ProductKey> products = products_to_time();
    const std::string first = product(device);

    // What each rank would choose for itself.
    cuda::NamedAlgorithms fastest;
    EXPECT_EQ(cuda::time_algorithms(products, scratch.tensor, fastest), 1);
    EXPECT_EQ(cuda::use_algorithms(products, fastest), 1);
    const auto alone = all_gather_strings(world, product(device));
    EXPECT_TRUE(alone[0] != alone[1]);

    agree_on_algorithms(products, scratch.tensor, world);
    const auto agreed = all_gather_strings(world, product(device));
    EXPECT_TRUE(agreed[0] == agreed[1]) << "other bits";
    EXPECT_TRUE(agreed[0] == alone[0]) << "rank 0 chooses";
    EXPECT_TRUE(agreed[0] != first) << "the first is not the fastest";
    cuda::use_algorithms({}, {});
    EXPECT_TRUE(product(device) == first);
  });
}

using Counts = std::array<int64_t, emulator::cublaslt::kSeveral>;

/// The products that a step on this GPU computes with each of the algorithms, after tuning.
Counts products_of_a_step(const RunConfig& config, int gpu = 0) {
  Counts counts = {};
  run_thread_ranks(1, [&](Communicator& host) {
    cuda::use_device(gpu);
    const auto world = make_staged_communicator(host.split(0, host.rank()));
    const ParallelGroups groups = make_parallel_groups(*world);
    Trainer trainer(config, groups, open_training_data(config),
                    {DeviceType::cuda, static_cast<int8_t>(gpu)});
    EXPECT_EQ(trainer.tune_products(/*stores=*/true).has_value(), config.run.times_products());
    trainer.initialize();
    for (const int64_t sign : {-1, 1}) {
      if (sign == 1) trainer.step();
      for (uint16_t i = 0; i < counts.size(); ++i) {
        counts[i] += sign * emulator::cublaslt::products_by(i);
      }
    }
    trainer.result();
  });
  return counts;
}

RunConfig run_in(const test::TestFolder& folder, bool deterministic) {
  test::write_small_data(folder);
  RunConfig config = test::small_run(folder, "run", test::SmallKind::gpt);
  std::filesystem::create_directories(config.run.dir);
  config.run.precision = DType::bf16;
  config.run.deterministic = deterministic;
  return config;
}

TEST_F(ProductTuning, ReachesEveryProductOfAStep) {
  const test::TestFolder folder;
  const Counts counts = products_of_a_step(run_in(folder, /*deterministic=*/false));
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[1], 0);
  EXPECT_GT(counts[2], 0) << "the last is the fastest on GPU 0";
}

TEST_F(ProductTuning, DoesNotHappenInDeterministicRuns) {
  const test::TestFolder folder;
  const Counts counts = products_of_a_step(run_in(folder, /*deterministic=*/true));
  EXPECT_GT(counts[0], 0);
  EXPECT_EQ(counts[1] + counts[2], 0);
}

// Another algorithm is the fastest on GPU 1 than on GPU 0.
TEST_F(ProductTuning, RanksAgreeOnTheAlgorithmsOfTheRunTheyResume) {
  ASSERT_GE(cuda::device_count(), 2);
  const test::TestFolder folder;
  RunConfig config = run_in(folder, /*deterministic=*/true);
  config.run.product_algorithms = ProductAlgorithms::timed;
  const std::string path = std::filesystem::path(config.run.dir) / kAlgorithmFile;
  const auto text_of = [&] { return read_small_file(path, 1 << 20); };

  const Counts alone = products_of_a_step(config, 1);
  std::filesystem::remove(path);
  const Counts first = products_of_a_step(config, 0);
  EXPECT_TRUE(alone != first);
  const std::string stored = text_of();
  EXPECT_TRUE(products_of_a_step(config, 1) == first) << "resumed";
  EXPECT_EQ(text_of(), stored);

  {  // those of another version are kept beside
    const cuda::Environment version("TESSERA_EMULATOR_CUBLASLT_VERSIONS", "130100");
    EXPECT_TRUE(products_of_a_step(config, 1) == alone);
  }
  EXPECT_NE(text_of(), stored);
  EXPECT_TRUE(products_of_a_step(config, 1) == first) << "back";

  // Other products of the run are timed when they first occur.
  config.batch.micro = 1;
  products_of_a_step(config, 1);
  config.batch.micro = 2;
  EXPECT_TRUE(products_of_a_step(config, 1) == first);

  std::string damaged = text_of();
  damaged[damaged.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << damaged;
  EXPECT_THROW(read_algorithms(path), Error);
  EXPECT_TRUE(products_of_a_step(config, 1) == alone) << "timed again";
  EXPECT_EQ(read_algorithms(path).size(), 1U);
}

}  // namespace
}  // namespace tessera
