#include "launch/train/model_state.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

constexpr const char* kExpAvg = "/exp_avg";
constexpr const char* kExpAvgSq = "/exp_avg_sq";

}  // namespace

std::vector<HeldTensor> held_tensors(const ParameterStore& store) {
  std::vector<HeldTensor> held;
  for (const Parameter& parameter : store.parameters()) {
    const auto hold = [&](const std::string& name, const char* kind, const Tensor& local) {
      held.push_back(
          {name, kind, parameter.global_shape, parameter.shard, parameter.real_part(local)});
    };
    hold(parameter.name, kModelKind, parameter.master);
    hold(parameter.name + kExpAvg, kOptimizerKind, parameter.exp_avg);
    hold(parameter.name + kExpAvgSq, kOptimizerKind, parameter.exp_avg_sq);
  }
  return held;
}

void require_finite_weights(const ParameterStore& store) {
  for (const Parameter& parameter : store.parameters()) {
    require(std::isfinite(sum_of_squares(parameter.master)), "a weight of {} is NaN or infinite",
            parameter.name);
  }
}

void load_weights(Checkpoint& checkpoint, ParameterStore& store) {
  for (Parameter& parameter : store.parameters()) {
    const bool has_master = parameter.master.defined();
    require(has_master || store.precision() == DType::f32,
            "weights are stored in fp32 and load into masters or fp32 values, not {}",
            to_string(store.precision()));
    const Tensor& target = has_master ? parameter.master : parameter.value;
    checkpoint.read(parameter.name, parameter.global_shape, parameter.shard,
                    parameter.real_part(target));
  }
  store.refresh_values();
}

void load_training_state(Checkpoint& checkpoint, ParameterStore& store) {
  load_weights(checkpoint, store);
  for (Parameter& parameter : store.parameters()) {
    checkpoint.read(parameter.name + kExpAvg, parameter.global_shape, parameter.shard,
                    parameter.real_part(parameter.exp_avg));
    checkpoint.read(parameter.name + kExpAvgSq, parameter.global_shape, parameter.shard,
                    parameter.real_part(parameter.exp_avg_sq));
  }
}

}  // namespace tessera
