#include "launch/train/gathered_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "core/deterministic.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/block_codes.h"
#include "core/ops/elementwise.h"
#include "core/parameters/shard_runs.h"
#include "launch/checkpoint/find.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

/// Some elements of a parameter's shard, indexed in row-major order.
struct LocalValues {
  Range elements;
  Tensor data;          ///< fp32 or bf16
  Buffer widened = {};  ///< of `data` in fp32, if it was bf16

  void widen() {
    if (!data.defined() || data.dtype() == DType::f32) return;
    OwnedTensor wide(data.shape(), DType::f32, data.device());
    copy(data, wide.tensor);
    data = wide.tensor;
    widened = std::move(wide.buffer);
  }
};
using Pick = std::function<LocalValues(const OptimizerShard&)>;

LocalValues masters(const OptimizerShard& own) { return {own.elements, own.master}; }
LocalValues moments(const OptimizerShard& own) {
  if (!own.exp_avg_scales.defined()) return {own.elements, own.exp_avg};
  OwnedTensor decoded(own.exp_avg.shape(), DType::f32, own.exp_avg.device());
  dequantize_blocks(own.exp_avg, own.exp_avg_scales, CodeMap::signed_numbers, decoded.tensor);
  return {own.elements, decoded.tensor, std::move(decoded.buffer)};
}
LocalValues averages(const OptimizerShard& own) { return {own.elements, own.ema}; }
LocalValues grads(const OptimizerShard& own) { return {own.elements, own.grad}; }

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// Assembles whole tensors from all ranks.
class Gatherer {
 public:
  void add(const OptimizerState& state, const Pick& pick, WholeTensors& into) {
    const std::lock_guard lock(mutex_);
    for (const Parameter& parameter : state.store().parameters()) {
      LocalValues part = pick(state.of(parameter));
      if (!part.data.defined()) continue;
      part.widen();
      std::vector<float>& whole = into[parameter.name];
      std::vector<bool>& known = known_[{&into, parameter.name}];
      whole.resize(static_cast<size_t>(parameter.global_shape.numel()));
      known.resize(whole.size());
      add(parameter, part, whole, known);
    }
  }

  /// Throws unless every element of every tensor was on some rank.
  void check_complete() const {
    for (const auto& [key, known] : known_) {
      const auto hole = std::ranges::find(known, false);
      require(hole == known.end(), "no rank has element {} of {}", hole - known.begin(),
              key.second);
    }
  }

 private:
  static void add(const Parameter& parameter, const LocalValues& part, std::vector<float>& whole,
                  std::vector<bool>& known) {
    const float* from = part.data.data<float>();
    for_each_run(parameter.global_shape, parameter.shard,
                 [&](int64_t global, int64_t local, int64_t count) {
                   const Range run = intersect({local, local + count}, part.elements);
                   for (int64_t i = run.begin - local; i < run.end - local; ++i) {
                     const auto at = static_cast<size_t>(global + i);
                     const float value = from[local + i - part.elements.begin];
                     require(!known[at] || same_bits(whole[at], value),
                             "{}: replicas differ at element {}: {} and {}", parameter.name, at,
                             whole[at], value);
                     whole[at] = value;
                     known[at] = true;
                   }
                 });
  }

  std::mutex mutex_;
  std::map<std::pair<const WholeTensors*, std::string>, std::vector<bool>> known_;
};

double root_mean_square(const std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) squares += double{value} * double{value};
  return values.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(values.size()));
}

/// Calls `compare(name, actual, expected)` for tensors of one name until it returns a difference.
template <typename Compare>
std::optional<std::string> first_difference(const WholeTensors& actual,
                                            const WholeTensors& expected, Compare&& compare) {
  if (actual.size() != expected.size()) {
    return fmt::format("{} tensors instead of {}", actual.size(), expected.size());
  }
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return fmt::format("{} is missing", name);
    if (found->second.size() != values.size()) {
      return fmt::format("{} has {} elements instead of {}", name, found->second.size(),
                         values.size());
    }
    if (auto different = compare(name, found->second, values)) return different;
  }
  return std::nullopt;
}

}  // namespace

GatheredRun train_and_gather(const RunConfig& config, const GatherOptions& options) {
  GatheredRun result;
  Gatherer gatherer;
  const auto body = [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, config.grid_shape());
    allow_cudnn_dropout(config.train.cudnn_dropout);
    Trainer trainer(config, groups, open_training_data(config),
                    options.device ? options.device() : kCpu);
    if (options.resume) {
      const auto newest = newest_intact_checkpoint(
          config.run.dir, [](const std::string&) {}, world);
      require(newest.has_value(), "no checkpoint to resume from in {}", config.run.dir);
      Checkpoint checkpoint = Checkpoint::open(*newest);
      trainer.restore(checkpoint);
    } else {
      trainer.initialize();
    }
    const OptimizerState& state = trainer.optimizer_state();
    gatherer.add(state, masters, result.initial_weights);
    std::vector<StepResult> steps;
    for (int64_t i = 0; i < options.steps; ++i) {
      trainer.step();
      steps.push_back(trainer.result());
      if (i == 0) gatherer.add(state, grads, result.first_gradients);
    }
    gatherer.add(state, masters, result.weights);
    gatherer.add(state, moments, result.exp_avg);
    gatherer.add(state, averages, result.ema);
    const Evaluation evaluation = trainer.evaluate();
    if (options.save) trainer.save();
    if (world.rank() == 0) {
      result.steps = steps;
      result.evaluation = evaluation;
      result.graph_launches = trainer.graph_launches();
    }
  };
  if (options.run_ranks) {
    options.run_ranks(options.ranks, body);
  } else {
    run_thread_ranks(options.ranks, body);
  }
  gatherer.check_complete();
  return result;
}

std::optional<std::string> difference(const WholeTensors& actual, const WholeTensors& expected,
                                      double tolerance) {
  return first_difference(
      actual, expected,
      [&](const std::string& name, const std::vector<float>& found,
          const std::vector<float>& values) -> std::optional<std::string> {
        const double typical = root_mean_square(values);
        size_t wrong = 0, worst = 0;
        double worst_ratio = 0.0;
        for (size_t i = 0; i < values.size(); ++i) {
          if (found[i] == values[i]) continue;
          const double allowed = tolerance * std::max(std::abs(double{values[i]}), typical);
          const double error = std::abs(double{found[i]} - double{values[i]});
          if (error <= allowed) continue;
          const double ratio = std::isfinite(error) ? error / allowed : INFINITY;
          if (wrong++ == 0 || ratio > worst_ratio) {
            worst_ratio = ratio;
            worst = i;
          }
        }
        if (wrong == 0) return std::nullopt;
        return fmt::format(
            "{}: {} of {} elements differ; element {} is {} instead of {}, {:.3g} × the tolerance "
            "of {:.1e} × their typical magnitude {:.3g}",
            name, wrong, values.size(), worst, found[worst], values[worst], worst_ratio, tolerance,
            typical);
      });
}

std::optional<std::string> mean_difference(const WholeTensors& actual, const WholeTensors& expected,
                                           double tolerance) {
  std::vector<float> all;
  for (const auto& [name, values] : expected) all.insert(all.end(), values.begin(), values.end());
  const double least = root_mean_square(all) / 100.0;
  return first_difference(
      actual, expected,
      [&](const std::string& name, const std::vector<float>& found,
          const std::vector<float>& values) -> std::optional<std::string> {
        std::vector<float> differences(values.size());
        std::ranges::transform(found, values, differences.begin(), std::minus<>());
        const double allowed = tolerance * std::max(root_mean_square(values), least);
        const double error = root_mean_square(differences);
        if (error <= allowed) return std::nullopt;
        return fmt::format(
            "{}: the root mean square of the difference is {:.3g}, but at most {:.3g} is expected",
            name, error, allowed);
      });
}

std::optional<std::string> bit_difference(const WholeTensors& actual,
                                          const WholeTensors& expected) {
  return first_difference(actual, expected,
                          [](const std::string& name, const std::vector<float>& found,
                             const std::vector<float>& values) -> std::optional<std::string> {
                            for (size_t i = 0; i < values.size(); ++i) {
                              if (same_bits(found[i], values[i])) continue;
                              return fmt::format("{}: element {} is {} instead of {}", name, i,
                                                 found[i], values[i]);
                            }
                            return std::nullopt;
                          });
}

}  // namespace tessera
