#include "core/ops/query_groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
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

/// RMSNorm of each query and key of grouped (rows, in_group + 2, width), in double precision.
std::vector<double> normalized(std::span<const double> grouped, std::span<const double> queries,
                               std::span<const double> keys, const GroupCase& c, double eps) {
  std::vector<double> result(grouped.begin(), grouped.end());
  for (size_t at = 0; at < result.size(); at += static_cast<size_t>(c.width)) {
    const int64_t slot = static_cast<int64_t>(at) / c.width % (c.in_group + 2);
    if (slot > c.in_group) continue;
    const auto row = grouped.subspan(at, static_cast<size_t>(c.width));
    const double rstd = 1.0 / std::sqrt(dot(row, row) / static_cast<double>(c.width) + eps);
    for (size_t d = 0; d < row.size(); ++d) {
      result[at + d] = row[d] * rstd * (slot < c.in_group ? queries : keys)[d];
    }
  }
  return result;
}

// Every gradient against the difference quotient of a textbook RMSNorm, whose output the tests
// above repeat.
TEST(QueryGroups, NormalizeQueriesAndKeys) {
  constexpr float kEps = 1e-3f;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GroupCase& c :
         {GroupCase{1, 1, 4}, GroupCase{2, 3, 8}, GroupCase{1, 4, 20}, GroupCase{3, 1, 80}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(dtype), c.groups, c.in_group, c.width));
      const int64_t rows = kBatch * kLength * c.groups, heads = c.groups * c.in_group;
      const TestTensor grouped =
          random_tensor({kBatch, kLength, c.groups, c.in_group + 2, c.width}, dtype, 1);
      const TestTensor dqkv = random_tensor({kBatch, kLength, 3, heads, c.width}, dtype, 2);
      const TestTensor query = random_tensor({c.width}, dtype, 3);
      const TestTensor key = random_tensor({c.width}, dtype, 4);
      const QueryKeyNorm norm{query.tensor, key.tensor, kEps};
      const TestTensor rstd({rows, c.in_group + 1}, DType::f32), qkv(dqkv.tensor.shape(), dtype);
      normalize_and_repeat(grouped.tensor, norm, qkv.tensor, rstd.tensor);

      // The gradient with respect to the normalized groups.
      const TestTensor dgroups(grouped.tensor.shape(), DType::f32);
      const TestTensor dqkv32 =
          from_doubles(to_doubles(dqkv.tensor), dqkv.tensor.shape(), DType::f32);
      repeat_key_values_backward(dqkv32.tensor, dgroups.tensor);
      const auto dy = to_doubles(dgroups.tensor), x = to_doubles(grouped.tensor);
      const auto wq = to_doubles(query.tensor), wk = to_doubles(key.tensor);
      const TestTensor expected =
          from_doubles(normalized(x, wq, wk, c, kEps), grouped.tensor.shape(), DType::f32);
      const TestTensor repeated(dqkv.tensor.shape(), DType::f32);
      repeat_key_values(expected.tensor, repeated.tensor);
      expect_close(qkv.tensor, to_doubles(repeated.tensor), sum_tolerance(dtype, c.width), "qkv");

      const TestTensor dgrouped(grouped.tensor.shape(), dtype);
      const TestTensor dquery = random_tensor({c.width}, DType::f32, 5);
      const TestTensor dkey = random_tensor({c.width}, DType::f32, 6);
      const auto dquery_before = to_doubles(dquery.tensor);
      normalize_and_repeat_backward(dqkv.tensor, grouped.tensor, norm, rstd.tensor, dgrouped.tensor,
                                    dquery.tensor, dkey.tensor, Accumulate::yes);
      const auto slope = [&](auto&& of, const std::vector<double>& point) {
        return finite_difference([&](std::span<const double> at) { return dot(of(at), dy); },
                                 point);
      };
      const auto of_x = slope([&](auto at) { return normalized(at, wq, wk, c, kEps); }, x);
      auto of_query = slope([&](auto at) { return normalized(x, at, wk, c, kEps); }, wq);
      const auto of_key = slope([&](auto at) { return normalized(x, wq, at, c, kEps); }, wk);
      for (size_t i = 0; i < of_query.size(); ++i) of_query[i] += dquery_before[i];
      expect_close(dgrouped.tensor, of_x, sum_tolerance(dtype, c.width), "dgrouped");
      expect_close(dquery.tensor, of_query, sum_tolerance(DType::f32, rows * heads), "dquery");
      normalize_and_repeat_backward(dqkv.tensor, grouped.tensor, norm, rstd.tensor, dgrouped.tensor,
                                    dquery.tensor, dkey.tensor, Accumulate::no);
      expect_close(dkey.tensor, of_key, sum_tolerance(DType::f32, rows * heads), "dkey");
    }
  }
}

TEST(QueryGroups, NormGradientsOfNoHeadsAreZero) {
  const TestTensor grouped({2, 4, 0, 5, 8}, DType::f32), qkv({2, 4, 3, 0, 8}, DType::f32);
  const TestTensor rstd({0, 4}, DType::f32), weight = random_tensor({8}, DType::f32, 1);
  const TestTensor dquery = random_tensor({8}, DType::f32, 2);
  const TestTensor dkey = random_tensor({8}, DType::f32, 3);
  const auto run = [&](Accumulate accumulate) {
    normalize_and_repeat_backward(qkv.tensor, grouped.tensor, {weight.tensor, weight.tensor, 0.0f},
                                  rstd.tensor, grouped.tensor, dquery.tensor, dkey.tensor,
                                  accumulate);
  };
  const auto before = to_doubles(dquery.tensor);
  run(Accumulate::yes);
  EXPECT_EQ(to_doubles(dquery.tensor), before);
  run(Accumulate::no);
  EXPECT_EQ(to_doubles(dquery.tensor), std::vector<double>(8, 0.0));
  EXPECT_EQ(to_doubles(dkey.tensor), std::vector<double>(8, 0.0));
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
  const TestTensor weight({8}, DType::f32, kMeta), short_weight({7}, DType::f32, kMeta);
  const TestTensor rstd({16, 4}, DType::f32, kMeta), few({16, 3}, DType::f32, kMeta);
  const auto normalize = [&](const TestTensor& key_weight, const TestTensor& stats) {
    normalize_and_repeat(grouped.tensor, {weight.tensor, key_weight.tensor, 0.0f}, qkv.tensor,
                         stats.tensor);
  };
  normalize(weight, rstd);
  expect_error([&] { normalize(short_weight, rstd); }, {"weight", "(8)", "(7)"});
  expect_error([&] { normalize(weight, few); }, {"rstd", "(16, 4)", "(16, 3)"});
}

}  // namespace
}  // namespace tessera
