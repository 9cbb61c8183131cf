#include "launch/checkpoint/run_state.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "launch/config/label_names.h"

namespace tessera {
namespace {

/// Calls visit(key, member) for each key of the extra data.
template <typename State, typename Visit>
void for_each_key(State& state, Visit&& visit) {
  visit("tokenizer", state.tokenizer);
  visit("seed", state.seed);
  visit("train_samples", state.train_samples);
  visit("train_parts", state.train_parts);
  visit("optimizer", state.optimizer);
  visit("moment_dtype", state.moment_dtype);
  visit("imported_from", state.imported_from);
  visit("gpu_versions", state.gpu_versions);
  visit("labels", state.labels);
  visit("hides_targets", state.hides_targets);
  visit("truncate", state.truncate);
  visit("trained_beside_adapters", state.trained_beside_adapters);
  visit("tokens", state.tokens);
  visit("skipped_steps", state.skipped_steps);
  visit("rollbacks", state.rollbacks);
  visit("gradient_norms", state.gradient_norms);
  visit("noise_scale", state.noise_scale);
  visit("evaluations", state.evaluations);
  visit("evaluated_step", state.evaluated_step);
  visit("sampled_step", state.sampled_step);
  visit("by_time", state.by_time);
}

template <typename T>
Json written(const T& value) {
  return value;
}

Json written(const GradientNoise& value) {
  return {{"signal", value.signal}, {"noise", value.noise}};
}

Json written(const EvaluationHistory& value) {
  return {{"best_step", value.best_step},
          {"best_loss", value.best_loss},
          {"since_best", value.since_best}};
}

Json written(const std::vector<TrainPart>& value) { return to_json(value); }

template <typename T>
Json written(const std::optional<T>& value) {
  return written(*value);
}

template <typename T>
void read(const Json& json, T& value) {
  json.get_to(value);
}

void read(const Json& json, int64_t& value) { value = json_count(json, "a count"); }

void read(const Json& json, GradientNoise& value) {
  value = {json.at("signal").get<double>(), json.at("noise").get<double>()};
}

void read(const Json& json, EvaluationHistory& value) {
  const Json& loss = json.at("best_loss");  // null: it was not finite
  read(json.at("best_step"), value.best_step);
  read(json.at("since_best"), value.since_best);
  value.best_loss =
      loss.is_number() ? loss.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

void read(const Json& json, std::vector<TrainPart>& value) {
  for (const Json& part : json) {
    value.push_back({json_count(part.at("samples"), "samples"), part.at("share").get<double>()});
  }
}

template <typename T>
void read(const Json& json, std::optional<T>& value) {
  T found;
  read(json, found);
  value = found;
}

}  // namespace

void EvaluationHistory::add(int64_t step, double loss) {
  ++since_best;
  // Not a NaN, nor after one that came first.
  const bool is_better = loss < best_loss || (std::isnan(best_loss) && !std::isnan(loss));
  if (best_step == 0 || is_better) *this = {step, loss, 0};
}

bool RunState::has_other_labels(const std::optional<std::string>& others) const {
  return others && labels && label_names(*others) != label_names(*labels);
}

Json to_extra(const RunState& state) {
  Json extra = Json::object();
  for_each_key(state, [&]<typename T>(const char* key, const T& value) {
    if (value != T{}) extra[key] = written(value);
  });
  return extra;
}

RunState read_run_state(const Manifest& manifest) {
  RunState state;
  state.evaluated_step = state.sampled_step = manifest.step;
  for_each_key(state, [&]<typename T>(const char* key, T& value) {
    const auto found = manifest.extra.find(key);
    if (found == manifest.extra.end()) return;
    try {
      T read_value{};
      read(*found, read_value);
      value = std::move(read_value);
    } catch (const Error&) {
    } catch (const Json::exception&) {
    }
  });
  return state;
}

Json to_json(const std::vector<TrainPart>& parts) {
  Json json = Json::array();
  for (const auto& [samples, share] : parts)
    json.push_back({{"samples", samples}, {"share", share}});
  return json;
}

}  // namespace tessera
