#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/bench/bench_run.h"
#include "tests/bench/step_products.h"

// A training step beside its matrix products alone. The two take turns, so that what else the
// machine does meets both, and medians are reported.
namespace tessera::bench {
namespace {

template <typename Body>
double seconds(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void step(benchmark::State& state, const RunConfig& config) {
  BenchRun run(config);
  StepProducts products(config);
  for (int i = 0; i < 2; ++i) {  // pages, primitives and threads are there
    run.step();
    products.run();
  }
  std::vector<double> steps, alone, ratios;
  for (auto _ : state) {
    const double before = seconds([&] { products.run(); });
    steps.push_back(seconds([&] { run.step(); }));
    const double after = seconds([&] { products.run(); });
    alone.push_back((before + after) / 2.0);
    ratios.push_back(steps.back() / alone.back());
    state.SetIterationTime(steps.back());
  }
  const double step_seconds = median(steps);
  state.counters["step_ms"] = step_seconds * 1e3;
  state.counters["products_ms"] = median(alone) * 1e3;
  state.counters["step/products"] = median(ratios);
  state.counters["tokens/s"] = static_cast<double>(rows_of(config)) / step_seconds;
  state.counters["GFLOP/s"] = step_flops(config) / step_seconds * 1e-9;
}

BENCHMARK_CAPTURE(step, gpt2_124m_fp32, gpt2_124m(DType::f32))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK_CAPTURE(step, gpt2_124m_bf16, gpt2_124m(DType::bf16))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(9);
BENCHMARK_CAPTURE(step, gpt_shakespeare_fp32, gpt_shakespeare(DType::f32))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(200);
BENCHMARK_CAPTURE(step, gpt_shakespeare_bf16, gpt_shakespeare(DType::bf16))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(200);

}  // namespace
}  // namespace tessera::bench
