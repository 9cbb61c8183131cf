#include "core/ops/position_bias.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void require_table(const Tensor& table, const char* op) {
  require_dtype(table, DType::f32, op, "table");
  require(table.shape().rank() == 2 && table.dim(1) % 2 == 1,
          "{}: table must have shape (Hl, 2R - 1) for distances below R, but is {}", op,
          describe(table));
}

void require_buckets(const RelativeBuckets& buckets, const char* op) {
  const int64_t n = buckets.per_direction();
  require(buckets.count <= kMostRelativeBuckets && n >= 2 &&
              (!buckets.bidirectional || buckets.count % 2 == 0),
          "{}: there are {} buckets, but each direction needs at least 2, both have equally many, "
          "and all together are at most {}",
          op, buckets.count, kMostRelativeBuckets);
  require(buckets.max_distance > n / 2,
          "{}: max_distance is {}, but must be above {}, the number of buckets with one distance",
          op, buckets.max_distance, n / 2);
}

void require_weights(const Tensor& weights, const RelativeBuckets& buckets, const Tensor& table,
                     const char* name, const char* op) {
  require_table(table, op);
  require_buckets(buckets, op);
  require_shape(weights, {buckets.count, table.dim(0)}, op, name);
}

/// The bucket of |s − t| within its direction.
int64_t bucket_of_size(const RelativeBuckets& buckets, int64_t size) {
  const int64_t n = buckets.per_direction(), exact = n / 2;
  if (size < exact) return size;
  if (size >= buckets.max_distance) return n - 1;
  const auto ratio = [&](int64_t x) {
    return std::log(static_cast<double>(x) / static_cast<double>(exact));
  };
  const double steps = ratio(size) / ratio(buckets.max_distance) * static_cast<double>(n - exact);
  // Whole steps, such as those of powers of two, are exact in real numbers, but not in double.
  constexpr double kRounding = 1e-9;
  return std::min(exact + static_cast<int64_t>(steps + kRounding), n - 1);
}

}  // namespace

double alibi_slope(int64_t head, int64_t heads) {
  const uint64_t n = std::bit_floor(static_cast<uint64_t>(heads));
  return std::exp2(alibi_log2_slope(head, static_cast<int64_t>(n)));
}

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  constexpr const char* kOp = "alibi_bias";
  const OpRange range(kOp);
  require_table(table, kOp);
  require(first_head >= 0 && first_head + table.dim(0) <= total_heads,
          "{}: heads [{}, {}) of this rank are not within the {} heads of all ranks", kOp,
          first_head, first_head + table.dim(0), total_heads);
  const Device device = common_device(kOp, table);
  dispatch<cpu::alibi_bias, cuda::alibi_bias, meta::alibi_bias>(device, first_head, total_heads,
                                                                table);
}

int64_t relative_bucket(const RelativeBuckets& buckets, int64_t distance) {
  if (!buckets.bidirectional) return bucket_of_size(buckets, std::max<int64_t>(-distance, 0));
  const int64_t first = distance > 0 ? buckets.per_direction() : 0;
  return first + bucket_of_size(buckets, std::abs(distance));
}

BucketRanges bucket_ranges(const RelativeBuckets& buckets) {
  BucketRanges ranges{};
  ranges.per_direction = static_cast<int32_t>(buckets.per_direction());
  ranges.bidirectional = buckets.bidirectional;
  for (int32_t i = 1; i < ranges.per_direction; ++i) {
    // The first distance of bucket i or a later one: some buckets may be empty.
    int64_t low = ranges.nearest[i - 1], high = buckets.max_distance;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      bucket_of_size(buckets, middle) < i ? low = middle + 1 : high = middle;
    }
    ranges.nearest[i] = narrow<int32_t>(low);
  }
  return ranges;
}

void relative_bias(const Tensor& weights, const RelativeBuckets& buckets, Tensor table) {
  constexpr const char* kOp = "relative_bias";
  const OpRange range(kOp);
  require_weights(weights, buckets, table, "weights", kOp);
  require_float(weights, kOp, "weights");
  require_disjoint(table, "table", weights, "weights", kOp);
  const Device device = common_device(kOp, weights, table);
  dispatch<cpu::relative_bias, cuda::relative_bias, meta::relative_bias>(
      device, weights, bucket_ranges(buckets), table);
}

void relative_bias_backward(const Tensor& dtable, const RelativeBuckets& buckets, Tensor dweights) {
  constexpr const char* kOp = "relative_bias_backward";
  const OpRange range(kOp);
  require_weights(dweights, buckets, dtable, "dweights", kOp);
  require_dtype(dweights, DType::f32, kOp, "dweights");
  require_disjoint(dweights, "dweights", dtable, "dtable", kOp);
  const Device device = common_device(kOp, dtable, dweights);
  dispatch<cpu::relative_bias_backward, cuda::relative_bias_backward, meta::relative_bias_backward>(
      device, dtable, bucket_ranges(buckets), dweights);
}

}  // namespace tessera
