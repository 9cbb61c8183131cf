#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "launch/data/datasets/gpt_dataset.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/data/loading/prefetched_batches.h"
#include "launch/data/loading/token_batches.h"
#include "launch/support/files/file_descriptor.h"
#include "tests/bench/timing.h"

// How long steps wait for uncached data: 512 rows of 1024 tokens from a file of 4 GiB, in random
// order, as a run reads them, next to a thread that computes for a given time. `direct` loads them
// when a step begins, `prefetched` like a run. The file is created once, in TESSERA_BENCH_DATA, on
// the disk to measure; without it these benchmarks are skipped. Hundreds of steps read pages that
// were never read before; in a cgroup with far less than 4 GiB of memory, the system must also
// evict a page for each.
namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTokens = int64_t{2} << 30;  // of 2 bytes each
constexpr int64_t kSeqLength = 1024;
constexpr int64_t kRows = 512;
constexpr int64_t kMicroBatch = 16;
constexpr int64_t kVocabSize = 50257;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void write_dataset(const std::string& prefix) {
  constexpr int64_t kDocument = int64_t{1} << 20;
  IndexedDatasetWriter writer(prefix, {.type = TokenType::u16});
  std::vector<int32_t> tokens(kDocument);
  for (int64_t document = 0; document < kTokens / kDocument; ++document) {
    for (int64_t i = 0; i < kDocument; ++i) {
      tokens[static_cast<size_t>(i)] =
          static_cast<int32_t>((document * 7919 + i * 31) % kVocabSize);
    }
    writer.append(tokens);
    writer.end_document();
  }
  writer.finish();
}

/// Evicts the file from memory; no process may have it mapped.
void drop_from_cache(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  fsync(file.get());
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

void compute(double seconds) {
  double sum = 1.0;
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    for (int i = 0; i < 1000; ++i) sum = sum * 1.0000001 + 1e-9;
  }
  benchmark::DoNotOptimize(sum);
}

void data_wait(benchmark::State& state, bool prefetches, double step_seconds) {
  const char* folder = std::getenv("TESSERA_BENCH_DATA");
  if (folder == nullptr) {
    state.SkipWithError("TESSERA_BENCH_DATA is not set: a folder with 4 GiB to spare");
    return;
  }
  const std::string prefix = (std::filesystem::path(folder) / "tessera_bench").string();
  if (!std::filesystem::exists(prefix + ".idx")) write_dataset(prefix);
  drop_from_cache(prefix + ".bin");
  const auto tokens = std::make_shared<const IndexedDataset>(prefix, kVocabSize);
  const auto samples =
      std::make_shared<const GptDataset>(tokens, Range{0, tokens->num_tokens()}, kSeqLength);
  const TokenBatches batches(samples, nullptr, kVocabSize, 1, {kRows, kMicroBatch, 0, 1});
  PrefetchedBatches prefetched(batches, {kMicroBatch, kSeqLength});
  std::vector<double> waits;
  int64_t first = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    if (prefetches) {
      benchmark::DoNotOptimize(prefetched.take(first).data());
    } else {
      for (size_t micro = 0; micro < prefetched.current().size(); ++micro) {
        batches.load_train(first, static_cast<int64_t>(micro), prefetched.current()[micro]);
      }
    }
    // The first step of a run always waits.
    if (first > 0) waits.push_back(seconds_since(start));
    first += kRows;
    if (prefetches) prefetched.load_next(first);
    compute(step_seconds);
  }
  const double second = waits.front();
  const double sum = std::accumulate(waits.begin(), waits.end(), 0.0);
  state.counters["wait_ms"] = 1e3 * median(waits);
  state.counters["second_ms"] = 1e3 * second;
  state.counters["most_later_ms"] = 1e3 * *std::max_element(waits.begin() + 1, waits.end());
  const auto share = [&](double wait, size_t steps) {
    return wait / (wait + step_seconds * static_cast<double>(steps));
  };
  state.counters["wait/step"] = share(sum, waits.size());
  state.counters["later wait/step"] = share(sum - second, waits.size() - 1);
}

[[maybe_unused]] const bool registered = [] {
  for (const int step_ms : {100, 300, 1000}) {
    for (const bool prefetches : {false, true}) {
      const std::string name = "data_wait/" + std::string(prefetches ? "prefetched/" : "direct/") +
                               std::to_string(step_ms) + "ms";
      benchmark::RegisterBenchmark(name.c_str(), data_wait, prefetches, 1e-3 * step_ms)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime()
          ->Iterations(prefetches && step_ms == 100 ? 301 : 31);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tessera::bench
