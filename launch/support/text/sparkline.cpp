#include "launch/support/text/sparkline.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tessera {

void Sparkline::add(double value) {
  if (!std::isfinite(value)) return;
  if (means_.empty() || means_.back().count == values_of_each_) {
    if (means_.size() == most_) {
      for (size_t i = 0; i < most_ / 2; ++i) {
        const Mean &a = means_[2 * i], &b = means_[2 * i + 1];
        means_[i] = {a.sum + b.sum, a.count + b.count};
      }
      means_.resize(most_ / 2);
      values_of_each_ *= 2;
    }
    means_.push_back({});
  }
  means_.back().sum += value;
  ++means_.back().count;
}

std::string Sparkline::text() const {
  constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kMost = 7.0;
  if (means_.size() < 2) return "";
  const auto [least, largest] = std::ranges::minmax(means_, {}, &Mean::value);
  const double low = least.value(), range = largest.value() - low;
  std::string text;
  for (const Mean& mean : means_) {
    const double share = range > 0.0 ? (mean.value() - low) / range : 0.0;
    text += kBars[static_cast<size_t>(std::lround(kMost * share))];
  }
  return text;
}

}  // namespace tessera
