// What the flight recorder costs: a recorded collective, and a range with and without a recorder.
#include <benchmark/benchmark.h>

#include "core/trace/flight_recorder.h"
#include "core/trace/trace.h"
#include "launch/support/files/temporary_folder.h"

namespace tessera {
namespace {

void range(benchmark::State& state) {
  for (auto _ : state) {
    const TraceRange block("blocks.3 backward");
  }
}

void flight_range_unrecorded(benchmark::State& state) { range(state); }
BENCHMARK(flight_range_unrecorded);

void flight_range(benchmark::State& state) {
  const TemporaryFolder folder("flight_bench");
  FlightRecorder recorder(folder.path() / "rank", 0, 2, "host");
  const FlightRecorder::Scope scope(&recorder);
  range(state);
}
BENCHMARK(flight_range);

void flight_collective(benchmark::State& state) {
  const TemporaryFolder folder("flight_bench");
  FlightRecorder recorder(folder.path() / "rank", 0, 2, "host");
  const FlightRecorder::Scope scope(&recorder);
  const int group = recorder.add_group("data", 0, 1, 2, 0);
  const TraceRange step("step"), block("blocks.3 backward"), layer("mlp backward");
  for (auto _ : state) {
    const uint64_t number = recorder.start(group, "all_reduce", "gradients", 1024);
    recorder.wait(number);
    const FlightRecorder::Call call(recorder);
    recorder.end(number);
  }
}
BENCHMARK(flight_collective);

}  // namespace
}  // namespace tessera
