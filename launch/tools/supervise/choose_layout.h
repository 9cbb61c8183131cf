#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"

namespace tessera {

/// A layout for fewer ranks than a run started with.
struct ChosenLayout {
  int64_t ranks = 1;
  int64_t tensor = 1;
  std::vector<std::string> overrides;  ///< for --set: the keys that differ from the configuration
};

/// The layout for at most `most` ranks: the most ranks that keep parallel.tensor, otherwise the
/// most ranks with any number of tensor ranks. The rules are those of `tessera plan`, so that
/// batch.global and the heads can be split. With `memory`, a rank's plan must fit in so many bytes.
/// If batch.micro is given and does not divide a data rank's share, its largest divisor below it is
/// used. nullopt if there is none.
std::optional<ChosenLayout> choose_layout(const RunConfig& config, int64_t most,
                                          std::optional<size_t> memory);

}  // namespace tessera
