#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/work_log.h"
#include "launch/config/run_config.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/gpu_peaks.h"
#include "launch/support/text/json.h"
#include "launch/tools/plan/run_plan.h"
#include "parallel/process_grid.h"

namespace tessera {

/// GPUs that NVLink connects, as in a DGX.
inline constexpr int64_t kRanksOfHost = 8;

/// The part of a data sheet's speed that kernels reach.
struct ReachedSpeed {
  double products = 1.0;   ///< of the peak of matrix products, without those of attention
  double attention = 1.0;  ///< likewise, of attention
  double memory = 1.0;     ///< of the memory's bandwidth
};

/// A GPU and its links, per rank.
struct RooflineGpu {
  GpuPeaks peaks;
  double tensor_bandwidth = 0.0;  ///< bytes/s sent to the tensor group
  double data_bandwidth = 0.0;    ///< bytes/s sent to the data group and the world
  /// Bytes/s sent to the ranks that share shards, if that are fewer; 0: data_bandwidth.
  double shard_bandwidth = 0.0;
  ReachedSpeed reached = {};
  double latency = 0.0;  ///< seconds of each collective besides sending
  bool overlaps = true;  ///< ops run while a collective does
  bool is_bound = true;  ///< all of the above is the best that can be

  /// The GPU of this name, which sends over NVLink. Throws, and lists the names, if none has it.
  static RooflineGpu of(const std::string& name);

  /// A GPU with the speeds fitted to runs on one H200 (docs/plan.md), and a network card of 400
  /// Gbit/s per rank between hosts of 8.
  static RooflineGpu measured(const std::string& name, const RunConfig& config, int64_t ranks);

  double bandwidth_to(std::string_view group) const {
    if (group == "shards" && shard_bandwidth > 0.0) return shard_bandwidth;
    return group == "tensor" ? tensor_bandwidth : data_bandwidth;
  }
};

/// The calls of one op in one part of a step.
struct RooflineLine {
  std::string part;        ///< ranges of the layers, "attention backward"
  std::string op;          ///< "linear_forward"
  int64_t calls = 0;       ///< in a step
  OpWork work = {};        ///< of all calls
  double seconds = 0.0;    ///< the least time of all calls
  double of_flops = 0.0;   ///< the least time of their FLOPs alone
  double of_memory = 0.0;  ///< the least time of their bytes alone
  bool bound_by_flops() const { return of_flops > of_memory; }
};

/// The calls of a collective for one purpose in one group.
struct RooflineExchange {
  std::string group;
  int ranks = 1;
  std::string purpose;
  std::string collective;
  int64_t calls = 0;
  double bytes_sent = 0.0;  ///< by a rank, with rings
  double seconds = 0.0;     ///< the least time to send them
  double waited = 0.0;      ///< the part of it in which the rank computes nothing else
};

/// The parts of a step's time, in seconds.
struct StepSeconds {
  double compute = 0.0;    ///< ops that FLOPs limit
  double passes = 0.0;     ///< ops that the memory limits: norms, sums, the optimizer
  double recompute = 0.0;  ///< blocks that are computed again
  double tensor = 0.0;     ///< exchanges of the tensor group that ops do not hide
  double data = 0.0;       ///< those of the data group and the world
  double total() const { return compute + passes + recompute + tensor + data; }
};

/// The time of a step on a GPU, which is the least one if gpu.is_bound.
struct Roofline {
  RunConfig config;
  ProcessGrid grid;
  RooflineGpu gpu;
  TargetCounts counts;
  std::vector<RooflineLine> lines;          ///< in the order of a step
  std::vector<RooflineExchange> exchanges;  ///< likewise
  double compute_seconds = 0.0;             ///< of all lines
  double waited_seconds = 0.0;              ///< of all exchanges
  double model_flops = 0.0;                 ///< of a rank, see model_flops()

  double seconds() const { return compute_seconds + waited_seconds; }
  StepSeconds parts() const;
  double tokens_per_second() const { return static_cast<double>(counts.tokens) / seconds(); }
  double mfu() const;
  /// The tokens of a micro-batch from which on blocks hide the gathers of their weights and the
  /// sums of their gradients (parallel.zero: 2 and 3): neither depends on the size of a block.
  /// nullopt without these.
  std::optional<int64_t> tokens_that_hide_shards() const;
};

/// The time of a step of a plan's run with a full batch on its first rank, from its dry run and the
/// speeds of a GPU; the least time with those of the data sheet. An op takes the longest of: its
/// matrix products at the peak of tensor cores (fp32: of run.tf32), its other FLOPs at the peak of
/// fp32, and its bytes at the memory's bandwidth, each tensor read or written once per op. Ops run
/// one after the other. A collective takes the time to send its bytes; collectives of a group run
/// one after the other, beside the ops, from where the code starts one to where it waits for it.
/// Kernel launches, latency and repeated reads are left out. Only reads that an L2 cache answers
/// can beat it. Throws Error if ranks exchange anything and the GPU has no link.
Roofline roofline(const RunPlan& plan, const RooflineGpu& gpu);

/// Fills lines, exchanges and seconds of `roofline` from the log of a dry run.
void add_work(const WorkLog& work, Roofline& roofline);

/// The time of a step and of the whole run, with what was assumed, in a few lines.
std::string time_text(const Roofline& roofline);
Json time_json(const Roofline& roofline);
/// "989 TFLOP/s of matrix products in bf16, ...", a line for each speed after the first.
std::string speeds_text(const Roofline& roofline);
Json speeds_json(const Roofline& roofline);

/// The roofline as text and as JSON.
std::string to_string(const Roofline& roofline);
Json to_json(const Roofline& roofline);

/// A section of docs/roofline.md: one table with the times on several GPUs. The rooflines differ in
/// the GPU only.
std::string roofline_markdown(const std::vector<Roofline>& rooflines);

}  // namespace tessera
