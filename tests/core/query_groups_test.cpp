#include "core/ops/query_groups.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int64_t kBatch = 2, kLength = 3;

/// The place in `grouped` of part 0 (query), 1 (key) or 2 (value) of a head.
size_t place(int64_t token, int64_t groups, int64_t in_group, int64_t part, int64_t head,
             int64_t width, int64_t d) {
  const int64_t slot = part == 0 ? head % in_group : in_group + part - 1;
  const int64_t row = (token * groups + head / in_group) * (in_group + 2) + slot;
  return static_cast<size_t>(row * width + d);
}

struct GroupCase {
  int64_t groups, in_group, width;
};

TEST(QueryGroups, RepeatsKeysAndValuesAndSumsTheirGradients) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GroupCase& c : {GroupCase{1, 1, 3}, GroupCase{2, 3, 8}, GroupCase{3, 2, 64},
                               GroupCase{1, 7, 20}, GroupCase{2, 4, 272}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(dtype), c.groups, c.in_group, c.width));
      const int64_t heads = c.groups * c.in_group;
      const TestTensor grouped =
          random_tensor({kBatch, kLength, c.groups, c.in_group + 2, c.width}, dtype, 1);
      const TestTensor dqkv = random_tensor({kBatch, kLength, 3, heads, c.width}, dtype, 2);
      const TestTensor qkv(dqkv.tensor.shape(), dtype), dgrouped(grouped.tensor.shape(), dtype);
      repeat_key_values(grouped.tensor, qkv.tensor);
      repeat_key_values_backward(dqkv.tensor, dgrouped.tensor);
      const auto from = to_doubles(grouped.tensor), gradient = to_doubles(dqkv.tensor);
      std::vector<double> expected, sums(from.size(), 0.0);
      for (int64_t i = 0; i < std::ssize(gradient); ++i) {
        const int64_t d = i % c.width, head = i / c.width % heads;
        const int64_t part = i / (c.width * heads) % 3, token = i / (c.width * heads * 3);
        const size_t at = place(token, c.groups, c.in_group, part, head, c.width, d);
        expected.push_back(from[at]);
        sums[at] += gradient[static_cast<size_t>(i)];
      }
      EXPECT_EQ(to_doubles(qkv.tensor), expected);
      expect_close(dgrouped.tensor, sums, sum_tolerance(dtype, c.in_group), "dgrouped");
    }
  }
}

TEST(QueryGroups, RefuseWrongArguments) {
  const TestTensor grouped({2, 4, 2, 5, 8}, DType::f32, kMeta);
  const TestTensor qkv({2, 4, 3, 6, 8}, DType::f32, kMeta),
      wrong({2, 4, 3, 5, 8}, DType::f32, kMeta);
  repeat_key_values(grouped.tensor, qkv.tensor);
  repeat_key_values_backward(qkv.tensor, grouped.tensor);
  expect_error([&] { repeat_key_values(grouped.tensor, wrong.tensor); },
               {"repeat_key_values", "qkv", "(2, 4, 3, 6, 8)", "(2, 4, 3, 5, 8)"});
  expect_error([&] { repeat_key_values_backward(wrong.tensor, grouped.tensor); },
               {"repeat_key_values_backward", "dqkv", "(2, 4, 3, 5, 8)"});
}

}  // namespace
}  // namespace tessera
