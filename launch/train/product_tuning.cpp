#include "launch/train/product_tuning.h"

#include <algorithm>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/meta/product_log.h"
#include "launch/train/dry_run.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

std::vector<cuda::ProductKey> products_of_step(const StepOptions& options,
                                               const ParallelGroups& groups) {
  MetaGroups meta(groups.world.size(), groups.grid.shape(), groups.world.rank());
  DryRun dry_run(options, meta);
  ProductLog log;
  const ProductLog::Scope scope(&log);
  WorkLog of_gpu;  // with it, a step adds to gradients like CUDA graphs do
  for (const TokenBatch& batch : largest_batches(options.model, options.batch.micro)) {
    dry_run.train_step(batch, {});
    dry_run.train_step(batch, {}, &of_gpu);
  }
  return log.keys();
}

std::string agree_on_algorithms([[maybe_unused]] const std::vector<cuda::ProductKey>& products,
                                [[maybe_unused]] const Tensor& scratch,
                                [[maybe_unused]] Communicator& world) {
  if constexpr (kHasCuda) {
    const auto gpus = all_gather_strings(world, cuda::algorithms_identity());
    const auto other = std::ranges::find_if(gpus, [&](auto& gpu) { return gpu != gpus.front(); });
    if (other != gpus.end()) {
      cuda::use_algorithms("");
      return fmt::format("the first algorithm of each, because the GPUs differ: {} and {}",
                         gpus.front(), *other);
    }
    std::string fastest;
    all_or_none(world, [&] {
      if (world.rank() == 0) fastest = cuda::time_algorithms(products, scratch);
    });
    const int64_t others = cuda::use_algorithms(broadcast_string(world, fastest, 0));
    return fmt::format(
        "rank 0 timed the algorithms of {}; for {}, another one than the first is faster",
        products.size(), others);
  }
  fail("a build without GPUs has no algorithms to choose from");
}

}  // namespace tessera
