#include <gtest/gtest.h>

#include "core/cuda/runtime.h"
#include "core/memory.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

TEST(MemoryUse, InnermostNonEmptyTextWins) {
  EXPECT_EQ(MemoryUse::current(), "");
  const MemoryUse outer("an evaluation", "take less");
  {
    const MemoryUse inner("activations");
    EXPECT_EQ(MemoryUse::current(), "activations");
    EXPECT_EQ(MemoryUse::advice(), "take less");
    const MemoryUse silent("", "take more ranks");
    EXPECT_EQ(MemoryUse::current(), "activations");
    EXPECT_EQ(MemoryUse::advice(), "take more ranks");
  }
  EXPECT_EQ(MemoryUse::current(), "an evaluation");
  EXPECT_EQ(MemoryUse::advice(), "take less");
}

TEST(MemoryUse, OutOfMemoryErrorNamesUse) {
  bool emulated = false;
  if constexpr (kHasCuda) emulated = test::on_gpu() && cuda::is_emulated();
  if (!emulated) GTEST_SKIP() << "a real driver may try to allocate this much memory";
  constexpr size_t kTooMuch = size_t{1} << 50;
  const MemoryUse outer("", "choose a smaller --micro-batch");
  const MemoryUse use("activations");
  test::expect_error([] { const Buffer buffer(kTooMuch, test::test_device()); },
                     {"out of GPU memory for activations", "GiB were asked for",
                      "choose a smaller --micro-batch, or stop other processes on this GPU"});
}

}  // namespace
}  // namespace tessera
