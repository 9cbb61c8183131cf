#include <benchmark/benchmark.h>

#include <vector>

#include "tests/bench/bench_run.h"
#include "tests/bench/step_parts.h"
#include "tests/bench/step_products.h"
#include "tests/bench/timing.h"

// A training step compared with its matrix products alone. The two alternate, so that other load on
// the machine affects both, and medians are reported. On a busy machine trust the ratio of CPU
// times with OMP_NUM_THREADS=1: then no thread waits for one that has lost its core.
namespace tessera::bench {
namespace {

void step(benchmark::State& state, const RunConfig& config) {
  BenchRun run(config);
  StepProducts products(config);
  for (int i = 0; i < 2; ++i) {  // warms up pages, primitives and threads
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

// The cost of a step that does not depend on the number of rows: a step of one row, without what
// depends on the number of weights.
void fixed(benchmark::State& state, RunConfig config) {
  config.model.seq_length = 1;
  config.batch.global = config.batch.micro = 1;
  BenchRun run(config);
  StepProducts products(config);
  StepParts parts(config);
  std::vector<double> steps, weights;
  for (int i = 0; i < 20; ++i) run.step();
  for (auto _ : state) {
    steps.push_back(time_of([&] { run.step(); }).wall);
    weights.push_back(time_of([&] { products.run(); }).wall +
                      time_of([&] { parts.gradient_norm_part(); }).wall +
                      time_of([&] { parts.optimizer_part(); }).wall);
    state.SetIterationTime(steps.back());
  }
  state.counters["step_us"] = median(steps) * 1e6;
  state.counters["weights_us"] = median(weights) * 1e6;
  state.counters["fixed_us"] = (median(steps) - median(weights)) * 1e6;
}

// Steps alone, for peer_pytorch.py.
void peer_of_lengths(benchmark::State& state, const RunConfig& config, Lengths lengths) {
  BenchRun run(config, lengths);
  for (int i = 0; i < 2; ++i) run.step();
  std::vector<double> speeds;
  for (auto _ : state) {
    StepResult result;
    const double seconds = time_of([&] { result = run.step(); }).wall;
    speeds.push_back(static_cast<double>(result.tokens) / seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["tokens/s"] = median(speeds);
}

void peer(benchmark::State& state, const RunConfig& config) {
  peer_of_lengths(state, config, Lengths::full);
}

void peer_around_half(benchmark::State& state, const RunConfig& config) {
  peer_of_lengths(state, config, Lengths::around_half);
}

template <typename Run>
void register_run(const std::string& name, Run run, const RunConfig& config, int iterations) {
  const char* suffix = config.run.precision == DType::bf16 ? "_bf16" : "_fp32";
  benchmark::RegisterBenchmark((name + suffix).c_str(), run, config)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(iterations);
}

[[maybe_unused]] const bool step_registered = [] {
  for (const DType precision : {DType::f32, DType::bf16}) {
    register_run("step/gpt2_124m", step, gpt2_124m(precision), 5);
    register_run("step/gpt_shakespeare", step, gpt_shakespeare(precision), 100);
    register_run("step/bert_4x768_128", step, bert_4x768(precision, 128), 5);
    register_run("step/bert_4x768_512", step, bert_4x768(precision, 512), 3);
    register_run("step/bert_tiny", step, bert_tiny(precision), 100);
    register_run("fixed/gpt_shakespeare", fixed, gpt_shakespeare(precision), 500);
    register_run("peer/gpt2_124m", peer, gpt2_124m(precision), 5);
    register_run("peer/bert_base_128", peer, bert_base(precision, 128), 5);
    register_run("peer/gpt_shakespeare", peer, gpt_shakespeare(precision), 200);
    register_run("peer/llama_100m", peer, llama_100m(precision), 5);
    register_run("peer/modernbert_base_256", peer_around_half, modernbert_base(precision, 256), 5);
    register_run("peer/t5_small_256", peer_around_half, t5_small(precision, 256), 5);
    register_run("peer/vit_base", peer, vit_base(precision), 5);
  }
  return true;
}();

}  // namespace
}  // namespace tessera::bench
