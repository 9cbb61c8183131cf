#include "launch/tools/supervise/choose_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/tools/plan/run_plan.h"
#include "launch/train/start/derive_config.h"
#include "parallel/process_grid.h"

namespace tessera {
namespace {

/// The largest divisor of `number` up to `most`.
int64_t largest_divisor(int64_t number, int64_t most) {
  int64_t divisor = std::max<int64_t>(1, most);
  while (number % divisor != 0) --divisor;
  return divisor;
}

std::optional<ChosenLayout> layout_of(const RunConfig& given, int64_t ranks, int64_t tensor,
                                      std::optional<size_t> memory) {
  RunConfig config = given;
  config.parallel.tensor = tensor;
  const int64_t data_ranks = config.grid_shape().data_ranks(ranks);
  if (data_ranks == 1 && config.parallel.zero >= 2) config.parallel.zero = 0;
  const int64_t shard = config.parallel.shard;
  if (config.parallel.zero == 0 || (shard > 0 && data_ranks % shard != 0)) {
    config.parallel.shard = 0;
  }
  if (grid_problem(ranks, config.grid_shape()) || given.batch.global % data_ranks != 0) {
    return std::nullopt;
  }
  config = derive_config(config, ranks, DeriveFor::planning, [](const std::string&) {}).config;
  const bool chooses_micro = config.automatic.erase("batch.micro") > 0;
  const int64_t share = config.batch.global / data_ranks;
  // A run chooses the largest micro-batch that fits, so the smallest one must.
  config.batch.micro = chooses_micro ? 1 : largest_divisor(share, config.batch.micro);
  if (!broken_rules(config, ranks).empty()) return std::nullopt;
  if (memory && plan_run(config, ranks).memory.total() > *memory) return std::nullopt;
  ChosenLayout layout = {ranks, tensor, {}};
  if (tensor != given.parallel.tensor) {
    layout.overrides.push_back(fmt::format("parallel.tensor={}", tensor));
  }
  if (config.parallel.zero != given.parallel.zero) layout.overrides.emplace_back("parallel.zero=0");
  if (config.parallel.shard != given.parallel.shard) {
    layout.overrides.emplace_back("parallel.shard=0");
  }
  const bool is_given = !given.automatic.contains("batch.micro");
  if (is_given && config.batch.micro != given.batch.micro) {
    layout.overrides.push_back(fmt::format("batch.micro={}", config.batch.micro));
  }
  return layout;
}

}  // namespace

std::optional<ChosenLayout> choose_layout(const RunConfig& config, int64_t most,
                                          std::optional<size_t> memory) {
  for (int64_t ranks = most; ranks >= 1; --ranks) {
    if (auto layout = layout_of(config, ranks, config.parallel.tensor, memory)) return layout;
  }
  for (int64_t ranks = most; ranks >= 1; --ranks) {
    for (int64_t tensor = 1; tensor <= ranks; ++tensor) {
      if (auto layout = layout_of(config, ranks, tensor, memory)) return layout;
    }
  }
  return std::nullopt;
}

}  // namespace tessera
