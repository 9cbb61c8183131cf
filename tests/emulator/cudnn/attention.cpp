#include "tests/emulator/cudnn/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/threads/parallel_for.h"
#include "tests/emulator/cudnn/view.h"

namespace emulator {
namespace {

using cudnn_frontend::DataType_t;
using cudnn_frontend::graph::AttentionOperation;
using cudnn_frontend::graph::AttentionOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
void add_scaled(double* to, double factor, const double* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

class Attention {
 public:
  Attention(const AttentionOperation& operation, const CudnnPointers& pointers)
      : operation_(operation),
        options_(operation.options),
        pointers_(pointers),
        q_(operation.q, pointers),
        k_(operation.k, pointers),
        v_(operation.v, pointers),
        o_(operation.o, pointers),
        stats_(operation.stats, pointers) {}

  void run() const {
    const int64_t batch = operation_.q->get_dim()[0], groups = k_.heads();
    for (int64_t b = 0; b < batch; ++b) {
      require_end(q_.end(b, query_length(b)), options_.max_total_seq_len_q, "queries");
      require_end(k_.end(b, key_length(b)), options_.max_total_seq_len_kv, "keys");
      for (const CudnnView* rows : {&q_, &o_, &stats_}) rows->require_rows(b, query_length(b));
      for (const CudnnView* rows : {&k_, &v_}) rows->require_rows(b, key_length(b));
    }
    static std::atomic<uint64_t> runs = 0;
    const uint64_t seed = ++runs;
    tessera::parallel_for_each(batch * groups, [&](int64_t i) {
      std::mt19937 random(static_cast<uint32_t>(seed * 1'000'003 + static_cast<uint64_t>(i)));
      if (operation_.backward) return backward(i / groups, i % groups, random);
      for (int64_t h = 0; h < in_group(); ++h) forward(i / groups, i % groups * in_group() + h);
    });
  }

 private:
  /// Heads that share a key and a value.
  int64_t in_group() const { return q_.heads() / k_.heads(); }

  /// Gaps between sequences count, because scratch memory has the layout of the rows.
  static void require_end(int64_t end, std::optional<int64_t> most, const char* of) {
    if (!most.has_value() || end <= *most) return;
    fail_cudnn(std::to_string(end) + " rows of " + of + ", but max_total_seq_len said " +
               std::to_string(*most));
  }

  int64_t length(const CudnnTensor& lengths, const CudnnTensor& of, int64_t b) const {
    const int64_t most = of->get_dim()[2];
    if (lengths == nullptr) return most;
    const int64_t length = static_cast<const int32_t*>(pointers_.at(*lengths->uid()))[b];
    if (length >= 0 && length <= most) return length;
    fail_cudnn("sequence " + std::to_string(b) + " has length " + std::to_string(length) +
               " of at most " + std::to_string(most));
  }
  int64_t query_length(int64_t b) const { return length(options_.seq_len_q, operation_.q, b); }
  int64_t key_length(int64_t b) const { return length(options_.seq_len_kv, operation_.k, b); }

  /// "Scores beyond column row + right_bound are masked, and those at or before row − left_bound."
  bool is_masked(int64_t t, int64_t s) const {
    return (options_.right_bound && s > t + *options_.right_bound) ||
           (options_.left_bound && s <= t - *options_.left_bound);
  }

  double bias(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (options_.bias == nullptr) return 0;
    const std::vector<int64_t>& dim = options_.bias->get_dim();
    return CudnnView(options_.bias, pointers_)
        .get(dim[0] == 1 ? 0 : b, dim[1] == 1 ? 0 : h, dim[2] == 1 ? 0 : t, s);
  }

  /// Scores of query t for all keys.
  std::vector<double> scores(int64_t b, int64_t h, int64_t t, const std::vector<double>& q,
                             const std::vector<double>& k) const {
    const int64_t features = q_.features();
    std::vector<double> scores;
    for (int64_t s = 0; s < key_length(b); ++s) {
      const double product = dot(&q[t * features], &k[s * features], features);
      const double scaled = double{options_.scale.value_or(1.0f)} * product + bias(b, h, t, s);
      scores.push_back(is_masked(t, s) ? -kInfinity : scaled);
    }
    return scores;
  }

  int64_t number(const CudnnTensor& tensor) const {
    return *static_cast<const int64_t*>(pointers_.at(*tensor->uid()));
  }

  /// The factor of a weight after the softmax. The bits are not cuDNN's, which are undocumented,
  /// but depend on the same things: seed, offset, and the place within the call.
  double dropout(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (!options_.dropout_probability) return 1;
    const std::vector<int64_t>& dim = operation_.q->get_dim();
    const auto place = static_cast<uint64_t>(((b * dim[1] + h) * dim[2] + t) * dim[2] + s);
    uint64_t bits = static_cast<uint64_t>(number(options_.seed)) * 0x9e3779b97f4a7c15u;
    for (const uint64_t part : {static_cast<uint64_t>(number(options_.offset)), place}) {
      bits = (bits ^ part) * 0xbf58476d1ce4e5b9u;
      bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
      bits ^= bits >> 31;
    }
    const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
    const double probability = double{*options_.dropout_probability};
    return uniform < probability ? 0 : 1 / (1 - probability);
  }

  void forward(int64_t b, int64_t h) const {
    const int64_t queries = query_length(b), keys = key_length(b), features = v_.features();
    const int64_t group = h / in_group();
    const auto q = q_.read(b, h, queries), k = k_.read(b, group, keys), v = v_.read(b, group, keys);
    std::vector<double> out(static_cast<size_t>(queries * features)), stats;
    for (int64_t t = 0; t < queries; ++t) {
      const std::vector<double> row = scores(b, h, t, q, k);
      double largest = -kInfinity, sum = 0;
      for (const double score : row) largest = std::max(largest, score);
      for (int64_t s = 0; s < keys; ++s) {
        const double weight = std::exp(row[s] - largest);
        sum += weight;
        add_scaled(&out[t * features], weight * dropout(b, h, t, s), &v[s * features], features);
      }
      for (int64_t d = 0; d < features; ++d) out[t * features + d] /= sum;
      stats.push_back(keys > 0 ? largest + std::log(sum) : kCudnnGarbage);
    }
    o_.write(b, h, out);
    stats_.write(b, h, stats);
  }

  /// Without a fixed order of sums, query gradients differ by up to a quarter of a unit in bf16's
  /// last place each time.
  void disturb(std::vector<double>& query_gradients, std::mt19937& random) const {
    if (options_.deterministic) return;
    std::uniform_real_distribution<double> noise(-0x1p-10, 0x1p-10);
    for (double& gradient : query_gradients) gradient *= 1.0 + noise(random);
  }

  void backward(int64_t b, int64_t group, std::mt19937& random) const {
    const int64_t keys = key_length(b), features = k_.features();
    std::vector<double> dk(static_cast<size_t>(keys * features)), dv(dk.size());
    for (int64_t h = 0; h < in_group(); ++h) {
      backward(b, group, group * in_group() + h, random, dk, dv);
    }
    CudnnView(operation_.dk, pointers_).write(b, group, dk);
    CudnnView(operation_.dv, pointers_).write(b, group, dv);
  }

  /// Adds to dk and dv.
  void backward(int64_t b, int64_t group, int64_t h, std::mt19937& random, std::vector<double>& dk,
                std::vector<double>& dv) const {
    const CudnnView d_o(operation_.d_o, pointers_);
    const int64_t queries = query_length(b), keys = key_length(b), features = q_.features();
    const auto q = q_.read(b, h, queries), k = k_.read(b, group, keys), v = v_.read(b, group, keys),
               o = o_.read(b, h, queries), dout = d_o.read(b, h, queries),
               stats = stats_.read(b, h, queries);
    std::vector<double> dq(q.size());
    for (int64_t t = 0; t < queries; ++t) {
      const double* gradient = &dout[t * features];
      const double from_sum = dot(gradient, &o[t * features], features);
      const std::vector<double> row = scores(b, h, t, q, k);
      for (int64_t s = 0; s < keys; ++s) {
        const double weight = std::exp(row[s] - stats[t]);
        const double factor = dropout(b, h, t, s);
        const double of_weight = factor * dot(gradient, &v[s * features], features);
        const double of_score =
            double{options_.scale.value_or(1.0f)} * weight * (of_weight - from_sum);
        add_scaled(&dq[t * features], of_score, &k[s * features], features);
        add_scaled(&dk[s * features], of_score, &q[t * features], features);
        add_scaled(&dv[s * features], factor * weight, gradient, features);
      }
    }
    disturb(dq, random);
    CudnnView(operation_.dq, pointers_).write(b, h, dq);
  }

  const AttentionOperation& operation_;
  const AttentionOptions& options_;
  const CudnnPointers& pointers_;
  CudnnView q_, k_, v_, o_, stats_;
};

}  // namespace

int64_t size_of(DataType_t type) {
  if (type == DataType_t::INT64) return 8;
  return type == DataType_t::FLOAT || type == DataType_t::INT32 ? 4 : 2;
}

void run_cudnn_attention(const AttentionOperation& operation, const CudnnPointers& pointers) {
  Attention(operation, pointers).run();
}

}  // namespace emulator
