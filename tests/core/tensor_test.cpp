#include "core/tensor.h"

#include <gtest/gtest.h>

#include "core/arena.h"
#include "core/error.h"

namespace tessera {
namespace {

TEST(Tensor, SliceAndViewShareElements) {
  OwnedTensor owned({4, 3}, DType::f32);
  owned.tensor.slice(1, 3).view({6}).data<float>()[4] = 7.0f;
  EXPECT_EQ(owned.tensor.span<float>()[7], 7.0f);
}

TEST(Tensor, RefusesWrongUses) {
  OwnedTensor owned({4, 3}, DType::f32);
  EXPECT_THROW(owned.tensor.data<int32_t>(), Error);
  EXPECT_THROW(owned.tensor.view({5}), Error);
  EXPECT_THROW(owned.tensor.slice(2, 5), Error);
  EXPECT_THROW(Tensor().data<float>(), Error);
}

TEST(Arena, DryRunMeasuresCapacity) {
  const auto run = [](Arena& arena) {
    arena.reset();
    arena.allocate({3, 5}, DType::f32);
    {
      Arena::Scope scope(arena);
      arena.allocate({1000}, DType::bf16);
    }
    arena.allocate({7}, DType::i32);
  };
  Arena dry(kMeta);
  run(dry);
  Arena arena(kCpu, dry.peak());
  run(arena);
  run(arena);
  EXPECT_EQ(arena.peak(), arena.capacity());
  EXPECT_THROW(arena.allocate({1000}, DType::f32), Error);
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1p-8f)), 1.0f);              // tie, to even
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1.8p-7f)), 1.0f + 0x1p-6f);  // tie, to even
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1.1p-8f)), 1.0f + 0x1p-7f);
  const float tiny_nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(tiny_nan))));
}

}  // namespace
}  // namespace tessera
