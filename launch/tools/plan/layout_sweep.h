#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/tools/plan/roofline.h"
#include "launch/tools/plan/run_plan.h"

namespace tessera {

/// The keys that a sweep varies. Another dimension is a member here, a loop in layouts_of() and a
/// column in the table.
struct Layout {
  int64_t tensor = 1;
  int64_t micro = 1;
  Recompute recompute = Recompute::none;
  int64_t zero = 0;
  bool sequence = false;
  int64_t shard = 0;

  /// `config` with this layout.
  RunConfig of(RunConfig config) const;
};

/// "tensor 8, micro 1, recompute block, zero 0, sequence false"
std::string to_string(const Layout& layout);

struct SweepOptions {
  int64_t ranks = 1;
  size_t memory = 0;              ///< per rank, in bytes
  std::optional<int64_t> tensor;  ///< restricts the sweep to this number of tensor ranks
  /// The GPU of a rank, by its layout.
  std::function<RooflineGpu(const RunConfig& config)> gpu;
};

/// A layout that fits.
struct SweptLayout {
  Layout layout;
  int64_t data = 1;
  size_t memory = 0;  ///< of the plan, in bytes
  StepSeconds time;
  double mfu = 0.0;
};

struct LayoutSweep {
  SweepOptions options;
  size_t left_free = 0;     ///< part of options.memory left for unplanned use
  int64_t step_tokens = 0;  ///< without padding
  std::string assumed;      ///< the speeds of the fastest layout that fits
  Json assumed_json = Json::object();
  int64_t steps = 0;                 ///< of the run
  std::vector<SweptLayout> fitting;  ///< sorted by predicted time
  int64_t too_large = 0;             ///< number of layouts that need more memory
  /// The one of them that needs the least memory, and how much; set if too_large is not 0.
  std::optional<Layout> smallest;
  size_t smallest_memory = 0;
  /// Number of grids of tensor × data ranks that are invalid with any micro-batch, and why the
  /// first one is.
  int64_t broken = 0;
  std::string first_broken;
};

/// Plans `config` in all layouts on `ranks` ranks: tensor ranks that divide the ranks, batch.micro
/// that divides a data rank's batch (at most 2^31 - 1 tokens), each train.recompute, and, if there
/// are ranks to share with, parallel.sequence on and off and each stage of parallel.zero: shared by
/// as many replicas as parallel.shard says or, if it is 0, by all and by those of a host. On a GPU
/// (any run.device but cpu), kUnplannedOfEmptyGpu (gpu_memory_check.h) stay free. Throws if the
/// configuration is invalid in every layout.
LayoutSweep sweep_layouts(const RunConfig& config, const SweepOptions& options);

/// Plans `config`, which is valid, with each such stage. Nothing else varies.
LayoutSweep sweep_stages(const RunConfig& config, const SweepOptions& options);

/// The table of the layouts that fit, at most `most` of them, with the assumptions, and why the
/// others do not fit.
std::string to_string(const LayoutSweep& sweep, size_t most);
Json to_json(const LayoutSweep& sweep);

/// The part of a plan with the result of sweep_stages().
std::string stages_text(const LayoutSweep& stages);
Json stages_json(const LayoutSweep& stages);

}  // namespace tessera
