#include "core/masks/mask_conventions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;
using testing::ElementsAre;

template <typename T>
OwnedTensor mask_of(std::vector<int> values, const Shape& shape) {
  OwnedTensor mask(shape, dtype_of<T>());
  for (size_t i = 0; i < values.size(); ++i) mask.tensor.data<T>()[i] = static_cast<T>(values[i]);
  return mask;
}

template <typename T>
class MaskConventions : public testing::Test {};
using Integers = testing::Types<uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(MaskConventions, Integers);

TYPED_TEST(MaskConventions, PyTorchTrueMeansHidden) {
  const OwnedTensor mask = mask_of<TypeParam>({0, 1, 1, 0}, {2, 2}), hidden({2, 2}, DType::u8);
  hidden_from_pytorch(mask.tensor, hidden.tensor);
  EXPECT_THAT(hidden.tensor.template span<uint8_t>(), ElementsAre(0, 1, 1, 0));
}

TYPED_TEST(MaskConventions, HuggingFaceOneMeansVisible) {
  const OwnedTensor mask = mask_of<TypeParam>({1, 0, 1, 0}, {1, 1, 2, 2});
  const OwnedTensor hidden({1, 1, 2, 2}, DType::u8);
  hidden_from_hugging_face(mask.tensor, hidden.tensor);
  EXPECT_THAT(hidden.tensor.template span<uint8_t>(), ElementsAre(0, 1, 0, 1));
}

TYPED_TEST(MaskConventions, RefusesOtherValues) {
  const OwnedTensor mask = mask_of<TypeParam>({1, 0, 7, 9}, {2, 2}), hidden({2, 2}, DType::u8);
  expect_error([&] { hidden_from_hugging_face(mask.tensor, hidden.tensor); },
               {"hidden_from_hugging_face", "element 2", "is 7", "0 or 1", "1 is kept"});
  expect_error([&] { hidden_from_pytorch(mask.tensor, hidden.tensor); },
               {"hidden_from_pytorch", "element 2", "is 7", "0 or 1", "1 (true) hides"});
}

TEST(MaskConventionErrors, RefuseWrongTensors) {
  const OwnedTensor cube({2, 2, 2}, DType::u8), square({2, 2}, DType::f32), out({2, 2}, DType::u8);
  expect_error([&] { hidden_from_pytorch(cube.tensor, out.tensor); },
               {"(B, H, T, T)", "uint8 (2, 2, 2)"});
  expect_error([&] { hidden_from_pytorch(square.tensor, out.tensor); },
               {"uint8, int32 or int64", "fp32 (2, 2)", "additive"});
}

TEST(LengthsOf, CountsKeysBeforePadding) {
  const OwnedTensor hidden = mask_of<uint8_t>({0, 0, 1, 1, 1, 1, 0, 0, 0}, {3, 3});
  const OwnedTensor lengths({3}, DType::i32);
  lengths_of(hidden.tensor, lengths.tensor);
  EXPECT_THAT(lengths.tensor.span<int32_t>(), ElementsAre(2, 0, 3));
}

TEST(LengthsOf, RefusesVisibleKeyAfterHiddenOne) {
  const OwnedTensor hidden = mask_of<uint8_t>({0, 0, 0, 0, 1, 0}, {2, 3}), lengths({2}, DType::i32);
  expect_error([&] { lengths_of(hidden.tensor, lengths.tensor); },
               {"key 2 of sequence 1", "key 1 before it", "hidden_keys"});
}

}  // namespace
}  // namespace tessera
