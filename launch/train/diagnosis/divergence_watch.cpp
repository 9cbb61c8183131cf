#include "launch/train/diagnosis/divergence_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/support/text/human_text.h"

namespace tessera {
namespace {

/// Results of a level: many more than a spike that heals has.
constexpr size_t kBlock = 40;
/// The level that losses have at the start, until there is a block of them.
constexpr size_t kFirst = 5;
/// Many results that are somewhat higher, and a few that are much higher.
constexpr size_t kMany = 20, kFew = 6;
/// A loss below it is of a model that knows its data by heart, and noise.
constexpr double kLeastLoss = 0.05;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<double> last(const std::vector<double>& values, size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

}  // namespace

DivergenceWatch::Level DivergenceWatch::level_of(const std::vector<double>& values,
                                                 size_t count) const {
  const std::vector<double> own = last(values, count);
  return {steps_[steps_.size() - count], steps_.back(), median(own), std::ranges::max(own)};
}

void DivergenceWatch::update_levels() {
  if (results_ == kFirst) {
    first_ = level_of(losses_, kFirst);
    first_->median = first_->largest;  // of so few, the median says little
  }
  if (results_ % kBlock != 0) return;
  const Level loss = level_of(losses_, kBlock);
  if (!loss_ || loss.median < loss_->median) loss_ = loss;
  norm_ = level_of(norms_, kBlock);
  steps_.erase(steps_.begin(), steps_.end() - kMany);
  losses_ = last(losses_, kMany);
  norms_ = last(norms_, kMany);
}

std::string DivergenceWatch::rise(const char* name, const std::vector<double>& values,
                                  const Level& level, size_t results, double factor) const {
  if (values.size() < results) return "";
  const int64_t since = steps_[steps_.size() - results];
  const double now = median(last(values, results));
  const bool is_later = level.last_step < since;
  if (!is_later || level.median <= 0.0 || now <= std::max(level.largest, factor * level.median) ||
      median(last(losses_, results)) < kLeastLoss) {
    return "";
  }
  return fmt::format(
      "the run diverges: the {} is about {} since step {}, and was about {} in steps {} to {}. "
      "Stop it, and resume from a checkpoint before step {} with a smaller optimizer.lr",
      name, measured(now), since, measured(level.median), level.first_step, level.last_step, since);
}

std::string DivergenceWatch::add(int64_t step, double loss, double grad_norm) {
  if (has_warned_ || !std::isfinite(loss) || !std::isfinite(grad_norm)) return "";
  steps_.push_back(step);
  losses_.push_back(loss);
  norms_.push_back(grad_norm);
  ++results_;
  std::string found;
  const auto look = [&](const char* name, const std::vector<double>& values,
                        const std::optional<Level>& level, size_t results, double factor) {
    if (level && found.empty()) found = rise(name, values, *level, results, factor);
  };
  // Losses of a healthy run rise little; norms vary by themselves.
  look("loss", losses_, first_, kFew, 4.0);
  look("loss", losses_, loss_, kFew, 4.0);
  look("loss", losses_, loss_, kMany, 1.5);
  look("gradient norm", norms_, norm_, kFew, 50.0);
  look("gradient norm", norms_, norm_, kMany, 10.0);
  update_levels();
  has_warned_ = !found.empty();
  return found;
}

}  // namespace tessera
