#include "launch/train/memory/micro_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "launch/train/memory/gpu_memory_check.h"
#include "launch/train/memory/memory_plan.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

/// Beyond these, larger micro-batches are no faster: the products already fill the device. The
/// CPU's is measured (docs/performance.md); the GPU's is what published GPT-2 runs use.
constexpr int64_t kCpuTokens = 2048;
constexpr int64_t kGpuTokens = 16384;

size_t memory_of_rank(const ParallelGroups& groups, Device device, size_t free_bytes,
                      std::optional<size_t> available) {
  std::string host;
  all_or_none(groups.world, [&] { host = host_name(); });
  const std::vector<std::string> hosts = all_gather_strings(groups.world, host);
  if (device.is_cuda()) return free_bytes - std::min(free_bytes, kUnplannedBytes);
  if (!available) return std::numeric_limits<size_t>::max();
  return *available / static_cast<size_t>(std::ranges::count(hosts, host));
}

}  // namespace

MicroBatch choose_micro_batch(const RunConfig& config, int64_t data_ranks, Device device,
                              const std::function<bool(int64_t micro)>& fits) {
  const int64_t share = config.batch.global / data_ranks;
  const int64_t most_tokens = device.is_cuda() ? kGpuTokens : kCpuTokens;
  MicroBatch chosen;
  while (true) {
    const int64_t next = 2 * chosen.size;
    if (share % next != 0) {
      chosen.reason = fmt::format("a data rank's share of batch.global is {}", share);
    } else if (config.log.noise_scale_interval > 0 && next == config.batch.global) {
      chosen.reason = "log.noise_scale_interval needs two micro-batches";
    } else if (next * traits_of(config.model).row_length > most_tokens) {
      chosen.reason = "larger ones are no faster";
    } else if (!fits(next)) {
      chosen.reason = "larger ones do not fit into memory";
    } else {
      chosen.size = next;
      continue;
    }
    return chosen;
  }
}

MicroBatch choose_micro_batch(const RunConfig& config, const ParallelGroups& groups, Device device,
                              size_t free_bytes, std::optional<size_t> available) {
  const size_t memory = memory_of_rank(groups, device, free_bytes, available);
  MicroBatch chosen;
  all_or_none(groups.world, [&] {
    chosen = choose_micro_batch(config, groups.dp->size(), device, [&](int64_t micro) {
      RunConfig candidate = config;
      candidate.batch.micro = micro;
      return plan_memory(candidate, groups, device, device.is_cuda()).total() <= memory;
    });
  });
  int64_t negative = -chosen.size;  // there is no minimum
  groups.world.all_reduce(Tensor(&negative, {1}, DType::i64, kCpu), ReduceOp::max);
  if (-negative < chosen.size) chosen = {-negative, "larger ones do not fit on every rank"};
  return chosen;
}

}  // namespace tessera
