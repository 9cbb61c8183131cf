#include "launch/train/diagnosis/bad_reason.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace tessera {
namespace {

double number(const Tensor& one) { return one.span<double>()[0]; }

BadReason not_finite(std::string subject, double value) {
  return {std::move(subject), std::isnan(value) ? "NaN" : "infinite"};
}

std::optional<BadReason> reason_of(double loss, double norm, double median,
                                   const TrainSection& train) {
  if (!std::isfinite(loss)) return not_finite("loss", loss);
  if (!std::isfinite(norm)) return not_finite("gradient norm", norm);
  if (median == 0.0 || norm <= train.spike_factor * median) return std::nullopt;
  return BadReason{"gradient norm",
                   fmt::format("a spike, {:.4g}, more than {:g} × {:.4g}, the median of {} steps",
                               norm, train.spike_factor, median, train.spike_window),
                   true};
}

}  // namespace

std::optional<BadReason> reason_of_last_step(const StepRecord& record, const TrainSection& train) {
  const auto losses = record.losses().span<double>();
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  return reason_of(loss, number(record.norm()), number(record.median()), train);
}

BadReason reason_of_skipped_step(const StepRecord& record, const TrainSection& train) {
  const auto found = reason_of(0.0, number(record.last_skipped_norm()),
                               number(record.last_skipped_median()), train);
  return found.value_or(BadReason{"loss", "NaN or infinite"});
}

}  // namespace tessera
