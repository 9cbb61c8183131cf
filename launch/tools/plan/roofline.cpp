#include "launch/tools/plan/roofline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "core/error.h"

namespace tessera {
namespace {

// Speeds of an H200 (docs/gpu-results.md): products are fitted to steps of GPT-2, the others are
// typical of its kernels.
constexpr ReachedSpeed kReached = {0.57, 0.25, 0.8};
constexpr double kReachedOfLink = 2.0 / 3.0;

/// "recompute/blocks.3/attention" → "recompute/attention": the same for all blocks of a stack, as
/// "decoder.blocks.3". Work outside the ranges of layers belongs to the step itself.
std::string part_of(std::string_view range) {
  std::string part;
  while (!range.empty()) {
    const size_t end = std::min(range.find('/'), range.size());
    const std::string_view name = range.substr(0, end);
    const bool is_block = name.find("blocks.") != std::string_view::npos;
    if (!is_block) part += (part.empty() ? "" : "/") + std::string(name);
    range.remove_prefix(std::min(end + 1, range.size()));
  }
  return part.empty() ? "step" : part;
}

/// A number that counts repeated events.
double times(const WorkLog::Event& event, double value) {
  return static_cast<double>(event.times) * value;
}

/// Follows the log with the clocks of a rank's compute stream and of each group's collectives.
class Simulation {
 public:
  Simulation(const WorkLog& work, Roofline& roofline) : work_(work), roofline_(roofline) {}

  void run() {
    ends_.resize(work_.transfers().size());
    int64_t repeated = 1;  // how often the events since `begin` run
    double begin = 0.0;
    for (const WorkLog::Event& event : work_.events()) {
      if (event.times != repeated) {
        // A part that repeats waits for all collectives that it starts.
        now_ += (static_cast<double>(repeated) - 1.0) * (now_ - begin);
        repeated = event.times;
        begin = now_;
      }
      switch (event.kind) {
        case WorkLog::Event::Kind::op:
          run_op(event);
          break;
        case WorkLog::Event::Kind::start:
          start(event);
          break;
        case WorkLog::Event::Kind::wait:
          wait(event);
          break;
      }
    }
  }

 private:
  void run_op(const WorkLog::Event& event) {
    const RunSection& run = roofline_.config.run;
    const GpuPeaks& peaks = roofline_.gpu.peaks;
    const OpWork& work = event.work;
    const ReachedSpeed& reached = roofline_.gpu.reached;
    const bool is_attention = std::string_view(event.op).starts_with("attention_");
    const double of_products =
        event.op == "linear_fp8" ? peaks.fp8 : peaks.matmul_flops(run.precision, run.tf32);
    const double matmul_flops = of_products * (is_attention ? reached.attention : reached.products);
    const double of_flops = std::max(work.matmul_flops / matmul_flops, work.flops / peaks.fp32);
    const double of_memory = work.bytes() / (peaks.memory_bandwidth * reached.memory);
    const double seconds = std::max(of_flops, of_memory);
    RooflineLine& line = line_of(part_of(event.range), event.op);
    if (!event.continues) line.calls += event.times;
    line.work += {times(event, work.matmul_flops), times(event, work.flops),
                  times(event, work.bytes_read), times(event, work.bytes_written)};
    line.of_flops += times(event, of_flops);
    line.of_memory += times(event, of_memory);
    line.seconds += times(event, seconds);
    roofline_.compute_seconds += times(event, seconds);
    now_ += seconds;
  }

  void start(const WorkLog::Event& event) {
    const WorkLog::Transfer& transfer = work_.transfers()[event.transfer];
    const RooflineGpu& gpu = roofline_.gpu;
    const double bandwidth = gpu.bandwidth_to(transfer.group);
    require(bandwidth > 0.0,
            "{} has no NVLink: the {} ranks need --tensor-bandwidth and --data-bandwidth",
            gpu.peaks.name, transfer.group);
    const double seconds = transfer.bytes_sent / bandwidth + gpu.latency;
    double& group_end = group_ends_[transfer.group];
    group_end = ends_[event.transfer] = std::max(group_end, now_) + seconds;
    if (!gpu.overlaps) wait(event);
    RooflineExchange& exchange = exchange_of(transfer);
    exchange.calls += event.times;
    exchange.bytes_sent += times(event, transfer.bytes_sent);
    exchange.seconds += times(event, seconds);
  }

  void wait(const WorkLog::Event& event) {
    const double waited = std::max(0.0, ends_[event.transfer] - now_);
    exchange_of(work_.transfers()[event.transfer]).waited += times(event, waited);
    roofline_.waited_seconds += times(event, waited);
    now_ += waited;
  }

  RooflineLine& line_of(const std::string& part, const std::string& op) {
    const auto [found, is_new] = lines_.try_emplace({part, op}, roofline_.lines.size());
    if (is_new) {
      roofline_.lines.emplace_back();
      roofline_.lines.back().part = part;
      roofline_.lines.back().op = op;
    }
    return roofline_.lines[found->second];
  }

  RooflineExchange& exchange_of(const WorkLog::Transfer& transfer) {
    const auto [found, is_new] = exchanges_.try_emplace(
        {transfer.group, transfer.purpose, transfer.collective}, roofline_.exchanges.size());
    if (is_new) {
      roofline_.exchanges.push_back(
          {transfer.group, transfer.ranks, transfer.purpose, transfer.collective});
    }
    return roofline_.exchanges[found->second];
  }

  const WorkLog& work_;
  Roofline& roofline_;
  double now_ = 0.0;                          // seconds of the compute stream
  std::map<std::string, double> group_ends_;  // when a group's collectives so far are done
  std::vector<double> ends_;                  // of each transfer
  std::map<std::pair<std::string, std::string>, size_t> lines_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> exchanges_;
};

}  // namespace

RooflineGpu RooflineGpu::of(const std::string& name) {
  const std::optional<GpuPeaks> peaks = gpu_peaks(name);
  require(peaks.has_value(), "no data sheet of {} is known; known are those of {}", quote(name),
          known_gpus());
  return {*peaks, peaks->nvlink / 2.0, peaks->nvlink / 2.0};
}

RooflineGpu RooflineGpu::measured(const std::string& name, const RunConfig& config, int64_t ranks) {
  constexpr double kNetwork = 40e9;  // 400 Gbit/s, less the protocol
  RooflineGpu gpu = of(name);
  const double nvlink = kReachedOfLink * gpu.peaks.nvlink / 2.0;
  gpu.tensor_bandwidth = config.parallel.tensor <= kRanksOfHost ? nvlink : kNetwork;
  gpu.data_bandwidth = ranks <= kRanksOfHost ? nvlink : kNetwork;
  const int64_t sharing = config.parallel.shard * config.parallel.tensor;  // neighbors
  gpu.shard_bandwidth = sharing > 0 && kRanksOfHost % sharing == 0 ? nvlink : kNetwork;
  gpu.reached = kReached;
  gpu.latency = 20e-6;
  gpu.overlaps = config.run.device != DeviceChoice::cpu;  // a CPU's cores also exchange
  gpu.is_bound = false;
  return gpu;
}

StepSeconds Roofline::parts() const {
  StepSeconds parts;
  for (const RooflineLine& line : lines) {
    const bool again = line.part.starts_with("recompute");
    (again                   ? parts.recompute
     : line.bound_by_flops() ? parts.compute
                             : parts.passes) += line.seconds;
  }
  for (const RooflineExchange& exchange : exchanges) {
    (exchange.group == "tensor" ? parts.tensor : parts.data) += exchange.waited;
  }
  return parts;
}

// A block of P parameters computes 2 P FLOP per token in the forward pass, twice as many in the
// backward pass, and sends (n - 1) / n of P elements to gather or reduce them.
std::optional<int64_t> Roofline::tokens_that_hide_shards() const {
  const ParallelSection& parallel = config.parallel;
  const int ranks = grid.shards();
  if (parallel.zero < 2 || ranks == 1) return std::nullopt;
  const bool is_group = ranks < grid.size(kReplicaAxes);
  const double speed =
      gpu.reached.products * gpu.peaks.matmul_flops(config.run.precision, config.run.tf32);
  const double ratio = speed / gpu.bandwidth_to(is_group ? "shards" : "data") * (ranks - 1) / ranks;
  const auto bytes = [](DType dtype) { return static_cast<double>(size_of(dtype)); };
  const double gathered = parallel.zero == 3 ? bytes(config.run.precision) : 0.0;
  const double summed = bytes(parallel.grad_reduce_dtype);
  const double tokens = ratio * std::max(gathered / 2.0, (gathered + summed) / 4.0);
  return std::isfinite(tokens) ? std::optional(static_cast<int64_t>(std::ceil(tokens)))
                               : std::nullopt;
}

double Roofline::mfu() const {
  return model_flops / seconds() / gpu.peaks.matmul_flops(config.run.precision, config.run.tf32);
}

void add_work(const WorkLog& work, Roofline& roofline) { Simulation(work, roofline).run(); }

Roofline roofline(const RunPlan& plan, const RooflineGpu& gpu) {
  require(
      !plan.config.run.precision.fp8 || gpu.peaks.fp8 > 0.0,
      "run.precision is fp8, but {} has no products of 8-bit codes with scales of blocks: choose "
      "a Hopper GPU, such as H100, or bf16",
      gpu.peaks.name);
  Roofline result{plan.config, plan.grid, gpu, plan.counts, {}, {}};
  result.model_flops = plan.flops / plan.grid.world_size();
  add_work(*plan.work, result);
  return result;
}

}  // namespace tessera
