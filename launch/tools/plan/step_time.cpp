#include "launch/tools/plan/step_time.h"

#include <algorithm>

#include "models/layers/attention/self_attention.h"
#include "models/output_rows.h"

namespace tessera {
namespace {

/// Elements that a forward pass reads and writes per block and token. MLP width: the activation, or
/// half as much again with a gate. Model width:
/// two norms (one tensor read, one written) and two residual sums (two read, one written).
constexpr double kForwardMlp = 2.0, kForwardWidth = 2.0 * 2.0 + 2.0 * 3.0;
/// The same for a backward pass: GELU (two read, one written), norms likewise, and sums of
/// gradients.
constexpr double kBackwardMlp = 3.0, kBackwardWidth = 2.0 * 3.0 + 2.0 * 3.0;
/// Gradients of biases: the MLP's, and those of queries, keys, values and both outputs.
constexpr double kBiasMlp = 1.0, kBiasWidth = 5.0;
/// Per target and word: the maximum, the sum, and the gradient that replaces the logit.
constexpr double kLoss = 4.0;

/// A rank's share of the elements of all layers for a step's tokens: at model width (split only by
/// sequence parallelism), at model width split over the tensor ranks, and at MLP width.
struct Elements {
  double width = 0.0, split_width = 0.0, mlp = 0.0;
};

Elements elements_of(const RunPlan& plan) {
  const ModelConfig& model = plan.config.model;
  const int64_t rows = plan.counts.source_tokens == 0
                           ? model.num_layers * plan.counts.tokens
                           : model.num_layers * plan.counts.source_tokens +
                                 model.resolved_decoder_layers() * plan.counts.tokens;
  const TargetCounts& counts = plan.counts;
  const int64_t last_rows =
      read_by_heads(model).count(counts.tokens, counts.token_targets, counts.documents);
  const auto width = static_cast<double>(model.hidden_size);
  const double mlp = (model.gated_mlp ? 1.5 : 1.0) * static_cast<double>(model.resolved_mlp_size());
  const double tensor = plan.grid.tensor();
  const double tokens = static_cast<double>(rows) / plan.grid.data();
  const double behind_attention =
      static_cast<double>(rows - (counts.tokens - last_rows)) / plan.grid.data();
  return {behind_attention * width / (plan.config.parallel.sequence ? tensor : 1.0),
          tokens * width / tensor, behind_attention * mlp / tensor};
}

double bytes_of_element(const RunPlan& plan) {
  return static_cast<double>(size_of(plan.config.run.precision));
}

/// Bytes of AdamW (reads a gradient, a master and two moments; writes the latter three, and a value
/// if it is not the master), of Lion (the same with one moment), of the average of the weights
/// (reads it and the master, and writes it), of the gradient norm, and of converting gradients to
/// bf16 and their sums back. Those of Muon are of a dry run.
double update_bytes(const RunPlan& plan) {
  const auto local = static_cast<double>(plan.memory.local_parameters);
  const double owners = plan.config.parallel.zero == 1 ? plan.grid.data() : 1.0;
  const double value = plan.config.run.precision == DType::f32 ? 0.0 : bytes_of_element(plan);
  const double gradient = sizeof(float);
  const bool converts = plan.config.parallel.grad_reduce_dtype == DType::bf16;
  const double conversion = converts ? gradient + size_of(DType::bf16) : 0.0;
  const double conversions = local / owners * conversion + local * conversion;
  if (plan.config.optimizer.name == OptimizerName::muon) return plan.muon.bytes() + conversions;
  const double moments = plan.config.optimizer.name == OptimizerName::lion ? 1.0 : 2.0;
  const DType dtype = plan.config.optimizer.moment_dtype;
  // 8-bit moments are in fp32 meanwhile: written and read before the step, and after it.
  const double decoded = dtype == DType::u8 ? 4.0 * sizeof(float) : 0.0;
  const double moment = 2.0 * static_cast<double>(size_of(dtype)) + decoded;
  const double update = 3.0 * sizeof(float) + moments * moment;
  const double average = plan.config.optimizer.ema_decay > 0.0 ? 12.0 : 0.0;
  return local / owners * (update + value + gradient + average) + conversions;
}

/// Bytes of the passes that train.recompute repeats.
double recomputed_bytes(const RunPlan& plan) {
  const Elements elements = elements_of(plan);
  switch (plan.config.train.recompute) {
    case Recompute::none:
      return 0.0;
    case Recompute::activation:
      return bytes_of_element(plan) * kForwardMlp * elements.mlp;
    case Recompute::block:
      return bytes_of_element(plan) * (kForwardMlp * elements.mlp + kForwardWidth * elements.width);
  }
  return 0.0;
}

double seconds_of(double bytes, int64_t calls, double bandwidth, double latency) {
  return bytes / bandwidth + static_cast<double>(calls) * latency;
}

double seconds_of(const TrafficTally& tally, double bandwidth, double latency) {
  return seconds_of(tally.bytes_sent(), tally.calls(), bandwidth, latency);
}

}  // namespace

AssumedMachine AssumedMachine::of(DType precision) {
  AssumedMachine machine;
  if (precision == DType::f32) machine.flops /= 10.0;
  return machine;
}

double product_efficiency(const RunConfig& config, const AssumedMachine& machine) {
  const ModelConfig& model = config.model;
  const auto tensor = static_cast<double>(config.parallel.tensor);
  const auto rows = static_cast<double>(config.batch.micro * model.seq_length);
  const auto width = static_cast<double>(model.hidden_size);
  const auto mlp = static_cast<double>(model.resolved_mlp_size());
  const auto bytes = static_cast<double>(size_of(config.run.precision));
  const double flops_of_byte = machine.flops / machine.memory_bandwidth;
  // Over three products, weights are read twice, and their gradient is read and written.
  const double of_weights = (2.0 * bytes + 2.0 * sizeof(float)) / 3.0;
  double flops = 0.0, time = 0.0;
  // `most`: how much more than its share the tensor rank with the most columns has.
  const auto add = [&](double k, double n, double most) {
    flops += k * n;
    time += most * k * n *
            (1.0 + flops_of_byte / 2.0 * (bytes * (1.0 / k + 1.0 / n) + of_weights / rows));
  };
  const auto attention = static_cast<double>(model.attention_size());
  const auto keys = static_cast<double>(model.resolved_kv_heads() * model.resolved_head_dim());
  const auto heads =
      static_cast<double>(local_heads(model, static_cast<int>(config.parallel.tensor), 0).size());
  const double most = heads * tensor / static_cast<double>(model.num_heads);
  add(width, (attention + 2.0 * keys) / tensor, most);
  add(attention / tensor, width, most);
  add(width, (model.gated_mlp ? 2.0 : 1.0) * mlp / tensor, 1.0);
  add(mlp / tensor, width, 1.0);
  return flops / time;
}

double pass_bytes(const RunPlan& plan) {
  const Elements elements = elements_of(plan);
  const double biases = plan.config.model.linear_bias() ? 1.0 : 0.0;
  const double words = static_cast<double>(plan.counts.token_targets) / plan.grid.data() *
                       static_cast<double>(plan.config.model.vocab_size) / plan.grid.tensor();
  return bytes_of_element(plan) *
             ((kForwardWidth + kBackwardWidth) * elements.width +
              biases * kBiasWidth * elements.split_width +
              (kForwardMlp + kBackwardMlp + biases * kBiasMlp) * elements.mlp + kLoss * words) +
         update_bytes(plan);
}

PredictedTime predict_time(const RunPlan& plan, const AssumedMachine& machine) {
  const double rank_flops =
      machine.flops * product_efficiency(plan.config, machine) * plan.grid.world_size();
  PredictedTime time;
  time.compute = plan.flops / rank_flops +
                 plan.muon.matmul_flops / rank_flops * static_cast<double>(plan.grid.world_size());
  time.recompute =
      plan.recompute_flops / rank_flops + recomputed_bytes(plan) / machine.memory_bandwidth;
  time.passes = pass_bytes(plan) / machine.memory_bandwidth;

  const StepTraffic& traffic = plan.traffic;
  time.tensor = seconds_of(traffic.tensor, machine.tensor_bandwidth, machine.latency);
  const double gradients =
      seconds_of(traffic.data.bytes_sent(Traffic::gradients),
                 traffic.data.calls(Traffic::gradients), machine.data_bandwidth, machine.latency);
  const int64_t micro_batches =
      plan.config.batch.global / (plan.config.batch.micro * plan.grid.data());
  const bool hides = plan.config.run.device != DeviceChoice::cpu;
  const double backward =
      hides ? (time.compute * 2.0 / 3.0 + time.recompute) / static_cast<double>(micro_batches)
            : 0.0;
  time.data = seconds_of(traffic.data, machine.data_bandwidth, machine.latency) +
              seconds_of(traffic.world, machine.data_bandwidth, machine.latency) -
              std::min(gradients, backward);
  return time;
}

}  // namespace tessera
