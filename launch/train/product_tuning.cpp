#include "launch/train/product_tuning.h"

#include <algorithm>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/meta/product_log.h"
#include "launch/support/text/base64.h"
#include "launch/support/text/json.h"
#include "launch/train/dry_run.h"
#include "launch/train/stored_algorithms.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

namespace {

/// What choices of algorithms depend on.
std::string algorithms_of_gpu() {
  if constexpr (kHasCuda) {
    return fmt::format("{} with driver {}", cuda::algorithms_identity(), cuda::driver_version());
  }
  return "";
}

/// Reads the file. If it cannot be used, says so in `problem`.
StoredAlgorithms read_or_explain(const std::string& path, std::string& problem) {
  if (path.empty()) return {};
  try {
    return read_algorithms(path);
  } catch (const Error& error) {
    problem = fmt::format(
        ", because those of the run cannot be used, and so its last bits may "
        "change: {}",
        error.what());
  }
  return {};
}

/// {"algorithms": {product: base64}, "origin": a sentence}.
Json choose_algorithms([[maybe_unused]] const std::vector<cuda::ProductKey>& products,
                       [[maybe_unused]] const Tensor& scratch, const std::string& gpu,
                       const AlgorithmFile& file) {
  std::string problem;
  StoredAlgorithms stored = read_or_explain(file.path, problem);
  if (!stored.empty() && !stored.contains(gpu)) {
    problem = fmt::format(", because {} has none for {}", file.path, gpu);
  }
  cuda::NamedAlgorithms& algorithms = stored[gpu];
  int64_t timed = 0;
  if constexpr (kHasCuda) timed = cuda::time_algorithms(products, scratch, algorithms);
  if (timed > 0 && file.writes && !file.path.empty()) write_algorithms(file.path, stored);
  Json by_name = Json::object();
  for (const auto& [name, bytes] : algorithms) by_name[name] = to_base64(bytes);
  return {{"algorithms", by_name},
          {"origin", timed == 0 && !by_name.empty()
                         ? "the algorithms that the run has timed before"
                         : fmt::format("rank 0 timed the algorithms of {}{}", timed, problem)}};
}

}  // namespace

std::vector<cuda::ProductKey> products_of_step(const StepOptions& options,
                                               const ParallelGroups& groups) {
  MetaGroups meta(groups.world.size(), groups.grid.shape(), groups.world.rank());
  DryRun dry_run(options, meta);
  ProductLog log;
  const ProductLog::Scope scope(&log);
  WorkLog of_gpu;  // with it, a step adds to gradients like CUDA graphs do
  for (const TokenBatch& batch :
       largest_batches(options.model, options.batch.micro, context_ranks_of(groups))) {
    dry_run.train_step(batch, {});
    dry_run.train_step(batch, {}, &of_gpu);
  }
  return log.keys();
}

std::string agree_on_algorithms([[maybe_unused]] const std::vector<cuda::ProductKey>& products,
                                [[maybe_unused]] const Tensor& scratch,
                                [[maybe_unused]] Communicator& world,
                                [[maybe_unused]] const AlgorithmFile& file) {
  if constexpr (kHasCuda) {
    const auto gpus = all_gather_strings(world, algorithms_of_gpu());
    const auto other = std::ranges::find_if(gpus, [&](auto& gpu) { return gpu != gpus.front(); });
    if (other != gpus.end()) {
      cuda::use_algorithms({}, {});
      return fmt::format("the first algorithm of each, because the GPUs differ: {} and {}",
                         gpus.front(), *other);
    }
    Json chosen;
    all_or_none(world, [&] {
      if (world.rank() == 0) chosen = choose_algorithms(products, scratch, gpus.front(), file);
    });
    const std::string sent = broadcast_string(world, chosen.dump(), 0);
    chosen = parse_json(sent, "the algorithms of rank 0");
    cuda::NamedAlgorithms algorithms;
    for (const auto& entry : chosen["algorithms"].items()) {
      algorithms[entry.key()] = from_base64(entry.value().get<std::string>(), entry.key());
    }
    const int64_t others = cuda::use_algorithms(products, algorithms);
    return fmt::format("{}; for {} of {}, another one than the first is faster",
                       chosen["origin"].get<std::string>(), others, products.size());
  }
  fail("a build without GPUs has no algorithms to choose from");
}

}  // namespace tessera
