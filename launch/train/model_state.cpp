#include "launch/train/model_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/error.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

constexpr const char* kExpAvg = "/exp_avg";
constexpr const char* kExpAvgSq = "/exp_avg_sq";

/// What may differ between a model and the one that it is fine-tuned from.
bool of_a_head(const std::string& name) {
  constexpr const char* kHeads[] = {"head.", "pooler.", "next_sentence.", "classifier."};
  return std::any_of(std::begin(kHeads), std::end(kHeads),
                     [&](const char* head) { return name.rfind(head, 0) == 0; });
}

void load_weight(Checkpoint& checkpoint, const ParameterStore& store, const Parameter& parameter) {
  const bool has_master = parameter.master.defined();
  require(has_master || store.precision() == DType::f32,
          "weights are stored in fp32 and load into masters or fp32 values, not {}",
          to_string(store.precision()));
  const Tensor& target = has_master ? parameter.master : parameter.value;
  checkpoint.read(parameter.name, parameter.global_shape, parameter.shard,
                  parameter.real_part(target));
}

/// Whether a checkpoint has a parameter, of this shape: a classifier may have had other labels.
bool has_as_it_is(const Checkpoint& checkpoint, const Parameter& parameter) {
  return checkpoint.has(parameter.name) &&
         checkpoint.tensor(parameter.name).shape == parameter.global_shape;
}

/// The weights of a checkpoint that `store` has no parameter for.
std::vector<std::string> unused_weights(const Checkpoint& checkpoint, const ParameterStore& store) {
  std::set<std::string> used;
  for (const Parameter& parameter : store.parameters()) {
    if (!of_a_head(parameter.name) || has_as_it_is(checkpoint, parameter)) {
      used.insert(parameter.name);
    }
  }
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    if (tensor.kind == kModelKind && used.count(name) == 0) unused.push_back(name);
  }
  return unused;
}

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
  for (const Parameter& parameter : store.parameters()) load_weight(checkpoint, store, parameter);
  store.refresh_values();
}

std::string load_matching_weights(Checkpoint& checkpoint, ParameterStore& store) {
  std::vector<std::string> fresh;
  for (const Parameter& parameter : store.parameters()) {
    if (of_a_head(parameter.name) && !has_as_it_is(checkpoint, parameter)) {
      fresh.push_back(parameter.name);
    } else {
      load_weight(checkpoint, store, parameter);
    }
  }
  store.refresh_values();
  const std::vector<std::string> unused = unused_weights(checkpoint, store);
  for (const std::string& name : unused) {
    require(of_a_head(name), "the checkpoint {} has {}, for which the model has no place",
            checkpoint.path().string(), name);
  }
  std::string sentence;
  if (!fresh.empty()) sentence += fmt::format("new: {}", fmt::join(fresh, ", "));
  if (!fresh.empty() && !unused.empty()) sentence += "; ";
  if (!unused.empty()) sentence += fmt::format("left out: {}", fmt::join(unused, ", "));
  return sentence;
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
