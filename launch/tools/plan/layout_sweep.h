#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/tools/plan/run_plan.h"
#include "launch/tools/plan/step_time.h"

namespace tessera {

/// What a sweep changes of a configuration. A dimension more is a member here, a loop in
/// layouts_of() and a column in the table.
struct Layout {
  int64_t tensor = 1;
  int64_t micro = 1;
  Recompute recompute = Recompute::none;
  int64_t zero = 0;
  bool sequence = false;

  /// The configuration with this layout.
  RunConfig of(RunConfig config) const;
};

/// "tensor 8, micro 1, recompute block, zero 0, sequence false"
std::string to_string(const Layout& layout);

struct SweepOptions {
  int64_t ranks = 1;
  size_t memory = 0;              ///< of a rank, in bytes
  std::optional<int64_t> tensor;  ///< only layouts with so many tensor ranks
  AssumedMachine machine;
};

/// A layout that fits.
struct SweptLayout {
  Layout layout;
  int64_t data = 1;
  size_t memory = 0;  ///< of the plan, in bytes
  PredictedTime time;
};

struct LayoutSweep {
  SweepOptions options;
  size_t left_free = 0;              ///< of options.memory, for what no plan counts
  bool hides_gradients = true;       ///< whether their sum overlaps with the backward pass
  int64_t step_tokens = 0;           ///< without padding
  std::vector<SweptLayout> fitting;  ///< the best predicted time first
  int64_t too_large = 0;             ///< layouts that need more memory
  /// Of these the one that needs the least, and how much; there where too_large is not 0.
  std::optional<Layout> smallest;
  size_t smallest_memory = 0;
  /// Grids of tensor × data ranks that no micro-batch makes a run, and why the first is none.
  int64_t broken = 0;
  std::string first_broken;
};

/// Plans `config` in all layouts on so many ranks: the divisors of the ranks as tensor ranks, the
/// divisors of a data rank's batch (of micro-batches with at most 2^31 - 1 tokens) as batch.micro,
/// each train.recompute, and with and without parallel.zero and parallel.sequence where there are
/// ranks to share. On a GPU (any
/// run.device but cpu) device_room.h's kUnplannedBytes of the memory stay free. Throws if the
/// configuration is wrong whatever the layout.
LayoutSweep sweep_layouts(const RunConfig& config, const SweepOptions& options);

/// The table of the layouts that fit, at most `most` of them, with what is assumed, and what became
/// of the others.
std::string to_string(const LayoutSweep& sweep, size_t most);
Json to_json(const LayoutSweep& sweep);

}  // namespace tessera
