#include "launch/plan/step_time.h"

#include <algorithm>

namespace tessera {
namespace {

/// Seconds to read the input of all recomputed GELUs of a rank and write what they give.
double gelu_seconds(const RunPlan& plan, const AssumedMachine& machine) {
  const ModelConfig& model = plan.config.model;
  const double elements = static_cast<double>(model.num_layers) *
                          static_cast<double>(model.resolved_mlp_size()) *
                          static_cast<double>(plan.counts.tokens) / plan.grid.world_size();
  const auto bytes = static_cast<double>(size_of(plan.config.run.precision));
  return 2.0 * elements * bytes / machine.memory_bandwidth;
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
  const double balance = bytes / 2.0 * machine.flops / machine.memory_bandwidth;
  double flops = 0.0, time = 0.0;
  const auto add = [&](double k, double n) {
    flops += k * n;
    time += k * n * (1.0 + balance * (1.0 / rows + 1.0 / k + 1.0 / n));
  };
  add(width, 3.0 * width / tensor);
  add(width / tensor, width);
  add(width, mlp / tensor);
  add(mlp / tensor, width);
  return flops / time;
}

PredictedTime predict_time(const RunPlan& plan, const AssumedMachine& machine) {
  const double rank_flops =
      machine.flops * product_efficiency(plan.config, machine) * plan.grid.world_size();
  PredictedTime time;
  time.compute = plan.flops / rank_flops;
  time.recompute = plan.recompute_flops / rank_flops;
  if (plan.config.train.recompute == Recompute::gelu) time.recompute = gelu_seconds(plan, machine);
  time.tensor = plan.traffic.tensor.bytes_sent() / machine.tensor_bandwidth;

  const auto micro_batches =
      static_cast<double>(plan.config.batch.global / (plan.config.batch.micro * plan.grid.data()));
  const double backward = (time.compute * 2.0 / 3.0 + time.recompute) / micro_batches;
  const double gradients =
      plan.traffic.data.bytes_sent(Traffic::gradients) / machine.data_bandwidth;
  const double all = plan.traffic.data.bytes_sent() / machine.data_bandwidth;
  time.data = all - std::min(gradients, backward);
  return time;
}

}  // namespace tessera
