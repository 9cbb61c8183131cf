#include "launch/train/diagnosis/parameter_histograms.h"

#include <functional>

#include "core/memory.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

void add_values(const Tensor& values, ValueHistogram& histogram) {
  if (values.numel() == 0) return;
  if (values.device().is_cpu()) return histogram.add(values.span<float>());
  const OwnedTensor host(values.shape(), values.dtype());
  copy(values, host.tensor);
  histogram.add(host.tensor.span<float>());
}

/// Adds up the parts of all ranks.
void sum_over(Communicator& world, const std::vector<ValueHistogram*>& histograms) {
  std::vector<int64_t> counts;
  std::vector<double> sums, extremes;
  for (const ValueHistogram* each : histograms) {
    counts.insert(counts.end(), each->counts.begin(), each->counts.end());
    sums.insert(sums.end(), {each->sum, each->sum_squares});
    extremes.insert(extremes.end(), {-each->least, each->largest});
  }
  world.all_reduce(Tensor(counts.data(), {std::ssize(counts)}, DType::i64, kCpu));
  world.all_reduce(Tensor(sums.data(), {std::ssize(sums)}, DType::f64, kCpu));
  world.all_reduce(Tensor(extremes.data(), {std::ssize(extremes)}, DType::f64, kCpu),
                   ReduceOp::max);
  auto count = counts.cbegin();
  for (size_t i = 0; i < histograms.size(); ++i, count += ValueHistogram::kBuckets) {
    ValueHistogram& histogram = *histograms[i];
    histogram.counts.assign(count, count + ValueHistogram::kBuckets);
    histogram.sum = sums[2 * i];
    histogram.sum_squares = sums[2 * i + 1];
    histogram.least = -extremes[2 * i];
    histogram.largest = extremes[2 * i + 1];
  }
}

}  // namespace

std::vector<ParameterHistograms> parameter_histograms(const OptimizerState& state,
                                                      const ParallelGroups& groups) {
  std::vector<ParameterHistograms> found;
  const auto& parameters = state.store().parameters();
  found.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    if (parameter.frozen) continue;
    ParameterHistograms& histograms = found.emplace_back();
    histograms.name = parameter.name;
    if (!groups.counts_here(parameter)) continue;
    add_values(state.of(parameter).master, histograms.weights);
    add_values(state.of(parameter).grad, histograms.gradients);
  }
  std::vector<ValueHistogram*> all;
  for (ParameterHistograms& each : found) {
    all.push_back(&each.weights);
    all.push_back(&each.gradients);
  }
  sum_over(groups.world, all);
  return found;
}

}  // namespace tessera
