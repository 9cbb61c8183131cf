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

struct GroupCase {
  int64_t groups, in_group, width;
};

/// The place in `grouped` of head `place` of qkv.
size_t place_in_group(int64_t token, int64_t place, int64_t d, const GroupCase& c) {
  const int64_t heads = c.groups * c.in_group;
  const bool is_query = place < heads;
  const int64_t group = is_query ? place / c.in_group : (place - heads) % c.groups;
  const int64_t slot = is_query ? place % c.in_group : c.in_group + (place - heads) / c.groups;
  return static_cast<size_t>(((token * c.groups + group) * (c.in_group + 2) + slot) * c.width + d);
}

Shape qkv_shape(const GroupCase& c) {
  return {kBatch, kLength, c.groups * (c.in_group + 2), c.width};
}

TEST(QueryGroups, SplitAndJoinAgain) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GroupCase& c : {GroupCase{1, 1, 3}, GroupCase{2, 3, 8}, GroupCase{3, 2, 64},
                               GroupCase{1, 7, 20}, GroupCase{2, 4, 272}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(dtype), c.groups, c.in_group, c.width));
      const TestTensor grouped =
          random_tensor({kBatch, kLength, c.groups, c.in_group + 2, c.width}, dtype, 1);
      const TestTensor qkv(qkv_shape(c), dtype), joined(grouped.tensor.shape(), dtype);
      split_groups(grouped.tensor, qkv.tensor);
      split_groups_backward(qkv.tensor, joined.tensor);
      const auto from = to_doubles(grouped.tensor);
      const int64_t places = c.groups * (c.in_group + 2);
      std::vector<double> expected;
      for (int64_t i = 0; i < qkv.tensor.numel(); ++i) {
        const int64_t place = i / c.width % places, token = i / (c.width * places);
        expected.push_back(from[place_in_group(token, place, i % c.width, c)]);
      }
      EXPECT_EQ(to_doubles(qkv.tensor), expected);
      expect_same_bits(joined.tensor, grouped.tensor, "joined");
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
// above split.
TEST(QueryGroups, NormalizeQueriesAndKeys) {
  constexpr float kEps = 1e-3f;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GroupCase& c :
         {GroupCase{1, 1, 4}, GroupCase{2, 3, 8}, GroupCase{1, 4, 20}, GroupCase{3, 1, 80}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(dtype), c.groups, c.in_group, c.width));
      const int64_t rows = kBatch * kLength * c.groups, heads = c.groups * c.in_group;
      const TestTensor grouped =
          random_tensor({kBatch, kLength, c.groups, c.in_group + 2, c.width}, dtype, 1);
      const TestTensor dqkv = random_tensor(qkv_shape(c), dtype, 2);
      const TestTensor query = random_tensor({c.width}, dtype, 3);
      const TestTensor key = random_tensor({c.width}, dtype, 4);
      const QueryKeyNorm norm{query.tensor, key.tensor, kEps};
      const TestTensor rstd({rows, c.in_group + 1}, DType::f32), qkv(dqkv.tensor.shape(), dtype);
      normalize_and_split(grouped.tensor, norm, qkv.tensor, rstd.tensor);

      // The gradient with respect to the normalized groups.
      const TestTensor dgroups(grouped.tensor.shape(), DType::f32);
      const TestTensor dqkv32 =
          from_doubles(to_doubles(dqkv.tensor), dqkv.tensor.shape(), DType::f32);
      split_groups_backward(dqkv32.tensor, dgroups.tensor);
      const auto dy = to_doubles(dgroups.tensor), x = to_doubles(grouped.tensor);
      const auto wq = to_doubles(query.tensor), wk = to_doubles(key.tensor);
      const TestTensor expected =
          from_doubles(normalized(x, wq, wk, c, kEps), grouped.tensor.shape(), DType::f32);
      const TestTensor split(dqkv.tensor.shape(), DType::f32);
      split_groups(expected.tensor, split.tensor);
      expect_close(qkv.tensor, to_doubles(split.tensor), sum_tolerance(dtype, c.width), "qkv");

      const TestTensor dgrouped(grouped.tensor.shape(), dtype);
      const TestTensor dquery = random_tensor({c.width}, DType::f32, 5);
      const TestTensor dkey = random_tensor({c.width}, DType::f32, 6);
      const auto dquery_before = to_doubles(dquery.tensor);
      normalize_and_split_backward(dqkv.tensor, grouped.tensor, norm, rstd.tensor, dgrouped.tensor,
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
      normalize_and_split_backward(dqkv.tensor, grouped.tensor, norm, rstd.tensor, dgrouped.tensor,
                                   dquery.tensor, dkey.tensor, Accumulate::no);
      expect_close(dkey.tensor, of_key, sum_tolerance(DType::f32, rows * heads), "dkey");
    }
  }
}

TEST(QueryGroups, NormGradientsOfNoHeadsAreZero) {
  const TestTensor grouped({2, 4, 0, 5, 8}, DType::f32), qkv({2, 4, 0, 8}, DType::f32);
  const TestTensor rstd({0, 4}, DType::f32), weight = random_tensor({8}, DType::f32, 1);
  const TestTensor dquery = random_tensor({8}, DType::f32, 2);
  const TestTensor dkey = random_tensor({8}, DType::f32, 3);
  const auto run = [&](Accumulate accumulate) {
    normalize_and_split_backward(qkv.tensor, grouped.tensor, {weight.tensor, weight.tensor, 0.0f},
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
  const TestTensor qkv({2, 4, 10, 8}, DType::f32, kMeta), wrong({2, 4, 9, 8}, DType::f32, kMeta);
  split_groups(grouped.tensor, qkv.tensor);
  split_groups_backward(qkv.tensor, grouped.tensor);
  expect_error([&] { split_groups(grouped.tensor, wrong.tensor); },
               {"split_groups", "qkv", "(2, 4, 10, 8)", "(2, 4, 9, 8)"});
  expect_error([&] { split_groups_backward(wrong.tensor, grouped.tensor); },
               {"split_groups_backward", "dqkv", "(2, 4, 9, 8)"});
  const TestTensor weight({8}, DType::f32, kMeta), short_weight({7}, DType::f32, kMeta);
  const TestTensor rstd({16, 4}, DType::f32, kMeta), few({16, 3}, DType::f32, kMeta);
  const auto normalize = [&](const TestTensor& key_weight, const TestTensor& stats) {
    normalize_and_split(grouped.tensor, {weight.tensor, key_weight.tensor, 0.0f}, qkv.tensor,
                        stats.tensor);
  };
  normalize(weight, rstd);
  expect_error([&] { normalize(short_weight, rstd); }, {"weight", "(8)", "(7)"});
  expect_error([&] { normalize(weight, few); }, {"rstd", "(16, 4)", "(16, 3)"});
}

}  // namespace
}  // namespace tessera
