#include "launch/support/text/human_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/architecture.h"

namespace tessera {

std::string grouped(int64_t number) {
  return number < 1000 ? fmt::format("{}", number)
                       : fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string human_bytes(size_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string human_amount(double amount) {
  constexpr std::array<const char*, 8> kPrefixes = {"", "k", "M", "G", "T", "P", "E", "Z"};
  size_t prefix = 0;
  for (; amount >= 999.5 && prefix + 1 < kPrefixes.size(); ++prefix) amount /= 1000.0;
  const int digits = amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", amount, digits, kPrefixes[prefix]);
}

std::string measured(double value, int decimals) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0.0 ? "infinite" : "-infinite";
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.3e}", value);
  if (size != 0.0 && size < 0.5 * std::pow(10.0, -decimals)) return fmt::format("{:.2e}", value);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string percent(double fraction) {
  return std::isnan(fraction) ? "undefined" : fmt::format("{:.1f}%", 100.0 * fraction);
}

std::string human_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= 24 * 3600) return fmt::format("{:.1f} days", static_cast<double>(whole) / 86400.0);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string human_model(const ModelConfig& model) {
  std::string layers = std::to_string(model.num_layers);
  if (architecture_of(model.kind).cross_attention) {
    layers += fmt::format(" + {}", model.resolved_decoder_layers());
  }
  const std::string stack =
      fmt::format("{}: {} layers, {} wide, {} heads", architecture_of(model.kind).name, layers,
                  model.hidden_size, model.num_heads);
  if (model.has_images()) {
    return stack + fmt::format(", images of {0} × {0} × {1} in {2} patches of {3} × {3}",
                               model.image_size, model.num_channels, model.num_patches(),
                               model.patch_size);
  }
  return stack + fmt::format(", context {}, vocabulary {}", model.seq_length, model.vocab_size);
}

}  // namespace tessera
