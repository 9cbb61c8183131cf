#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "tests/bench/bench_run.h"
#include "tests/bench/step_products.h"

// A training step beside its matrix products alone. The two take turns, so that what else the
// machine does meets both, and medians are reported. On a busy machine the ratio of CPU times with
// OMP_NUM_THREADS=1 is the one to trust: then nobody waits for a thread that has lost its core.
namespace tessera::bench {
namespace {

struct Times {
  double wall, cpu;  ///< seconds; cpu is that of all threads, those that wait for others included
};

template <typename Body>
Times time_of(Body&& body) {
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
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
  std::vector<double> steps, alone, ratios, cpu_ratios;
  for (auto _ : state) {
    const Times before = time_of([&] { products.run(); });
    const Times whole = time_of([&] { run.step(); });
    const Times after = time_of([&] { products.run(); });
    steps.push_back(whole.wall);
    alone.push_back((before.wall + after.wall) / 2.0);
    ratios.push_back(whole.wall / alone.back());
    cpu_ratios.push_back(2.0 * whole.cpu / (before.cpu + after.cpu));
    state.SetIterationTime(whole.wall);
  }
  const double step_seconds = median(steps);
  state.counters["step_ms"] = step_seconds * 1e3;
  state.counters["products_ms"] = median(alone) * 1e3;
  state.counters["step/products"] = median(ratios);
  state.counters["cpu step/products"] = median(cpu_ratios);
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
    ->Iterations(5);
BENCHMARK_CAPTURE(step, gpt_shakespeare_fp32, gpt_shakespeare(DType::f32))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(100);
BENCHMARK_CAPTURE(step, gpt_shakespeare_bf16, gpt_shakespeare(DType::bf16))
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(100);

}  // namespace
}  // namespace tessera::bench
