#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "tests/bench/bench_run.h"
#include "tests/bench/timing.h"

// BERT's training step on rows with about half padding, compared with full rows of the same shape.
// The two alternate, and medians are reported; see step_bench.cpp.
namespace tessera::bench {
namespace {

void padding(benchmark::State& state, const RunConfig& config, Lengths lengths) {
  BenchRun full(config), padded(config, lengths);
  for (int i = 0; i < 2; ++i) {
    full.step();
    padded.step();
  }
  std::vector<double> full_walls, walls, ratios, cpu_ratios, real;
  for (auto _ : state) {
    StepResult result;
    const Times before = time_of([&] { full.step(); });
    const Times half = time_of([&] { result = padded.step(); });
    const Times after = time_of([&] { full.step(); });
    full_walls.push_back((before.wall + after.wall) / 2.0);
    walls.push_back(half.wall);
    ratios.push_back(half.wall / full_walls.back());
    cpu_ratios.push_back(2.0 * half.cpu / (before.cpu + after.cpu));
    real.push_back(static_cast<double>(result.tokens));
    state.SetIterationTime(half.wall);
  }
  const auto rows = static_cast<double>(rows_of(config));
  state.counters["full_ms"] = median(full_walls) * 1e3;
  state.counters["padded_ms"] = median(walls) * 1e3;
  state.counters["real share"] = median(real) / rows;
  state.counters["padded/full"] = median(ratios);
  state.counters["cpu padded/full"] = median(cpu_ratios);
  state.counters["full tokens/s"] = rows / median(full_walls);
  state.counters["tokens/s"] = median(real) / median(walls);
}

void register_padding(const std::string& name, const RunConfig& config, int iterations) {
  const std::string suffix = config.run.precision == DType::bf16 ? "_bf16" : "_fp32";
  const auto add = [&](const char* kind, Lengths lengths) {
    benchmark::RegisterBenchmark(("padding/" + name + suffix + kind).c_str(), padding, config,
                                 lengths)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(iterations);
  };
  add("/half", Lengths::half);
  add("/around_half", Lengths::around_half);
}

[[maybe_unused]] const bool padding_registered = [] {
  for (const DType precision : {DType::f32, DType::bf16}) {
    register_padding("bert_4x768_128", bert_4x768(precision, 128), 5);
    register_padding("bert_4x768_512", bert_4x768(precision, 512), 3);
    register_padding("bert_tiny", bert_tiny(precision), 100);
  }
  return true;
}();

}  // namespace
}  // namespace tessera::bench
