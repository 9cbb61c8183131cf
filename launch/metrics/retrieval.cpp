#include "launch/metrics/retrieval.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/threads/parallel_for.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

constexpr int64_t kPlaces = 10;

/// The floats of all ranks, in rank order; `first` is where this rank's begin.
std::vector<float> gather(const std::vector<float>& local, Communicator& replicas, size_t& first) {
  const std::string_view bytes(reinterpret_cast<const char*>(local.data()),
                               local.size() * sizeof(float));
  std::vector<float> all;
  const std::vector<std::string> parts = all_gather_strings(replicas, bytes);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const size_t before = all.size();
    if (static_cast<int>(rank) == replicas.rank()) first = before;
    all.resize(before + parts[rank].size() / sizeof(float));
    if (!parts[rank].empty()) std::memcpy(&all[before], parts[rank].data(), parts[rank].size());
  }
  return all;
}

double similarity(const float* a, const float* b, int64_t width) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < width; ++c) sum += a[c] * b[c];
  return static_cast<double>(sum);
}

}  // namespace

void RetrievalEvaluation::add(std::span<const float> embeddings, int64_t width) {
  width_ = width;
  const auto size = static_cast<size_t>(width), row = size * static_cast<size_t>(texts_);
  require(embeddings.size() % row == 0, "{} embeddings are not whole samples of {} texts",
          embeddings.size() / size, texts_);
  for (size_t i = 0; i < embeddings.size(); i += row) {
    const auto append = [&](std::vector<float>& to, size_t text) {
      const auto from = embeddings.subspan(i + text * size, size);
      to.insert(to.end(), from.begin(), from.end());
    };
    append(anchors_, 0);
    append(positives_, 1);
    if (texts_ == 3) append(negatives_, 2);
  }
}

Retrieval RetrievalEvaluation::finish(Communicator& replicas) {
  replicas.all_reduce(Tensor(&width_, {1}, DType::i64, kCpu), ReduceOp::max);  // 0 without samples
  size_t first = 0, unused = 0;
  std::vector<float> candidates = gather(positives_, replicas, first);
  const std::vector<float> negatives = gather(negatives_, replicas, unused);
  candidates.insert(candidates.end(), negatives.begin(), negatives.end());
  double loss = 0.0;
  // {anchors, positives in place 1, 2, ... 10}: integers, so that sums do not depend on the ranks.
  std::array<int64_t, 1 + kPlaces> counts = {};
  if (width_ > 0) {
    const auto width = width_;
    const auto anchors = static_cast<int64_t>(anchors_.size()) / width;
    const auto count = static_cast<int64_t>(candidates.size()) / width;
    const auto first_own = static_cast<int64_t>(first) / width;
    std::vector<double> losses(static_cast<size_t>(anchors));
    std::vector<int64_t> places(static_cast<size_t>(anchors));
    parallel_for(anchors, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* anchor = &anchors_[static_cast<size_t>(i * width)];
        const auto similarity_to = [&](int64_t k) {
          return similarity(anchor, &candidates[static_cast<size_t>(k * width)], width);
        };
        const double own = similarity_to(first_own + i);
        double most = own, sum = 0.0;  // Σ exp(scale × (cosine − most))
        int64_t place = 1;
        for (int64_t k = 0; k < count; ++k) {
          const double other = similarity_to(k);
          place += other > own ? 1 : 0;
          if (other > most) {
            sum *= std::exp(scale_ * (most - other));
            most = other;
          }
          sum += std::exp(scale_ * (other - most));
        }
        losses[static_cast<size_t>(i)] = std::log(sum) + scale_ * (most - own);
        places[static_cast<size_t>(i)] = place;
      }
    });
    for (size_t i = 0; i < places.size(); ++i) {
      loss += losses[i];
      ++counts[0];
      if (places[i] <= kPlaces) ++counts[static_cast<size_t>(places[i])];
    }
  }
  replicas.all_reduce(Tensor(&loss, {1}, DType::f64, kCpu));
  replicas.all_reduce(Tensor(counts.data(), {std::ssize(counts)}, DType::i64, kCpu));
  if (counts[0] == 0) return {};
  double found = 0.0, reciprocals = 0.0;
  for (size_t place = 1; place <= kPlaces; ++place) {
    found += static_cast<double>(counts[place]);
    reciprocals += static_cast<double>(counts[place]) / static_cast<double>(place);
  }
  const auto anchors = static_cast<double>(counts[0]);
  return {loss / anchors, static_cast<double>(counts[1]) / anchors, found / anchors,
          reciprocals / anchors};
}

}  // namespace tessera
