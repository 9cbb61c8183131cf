#include "launch/metrics/peak_flops.h"

#include <cctype>

namespace tessera {
namespace {

struct Peak {
  std::string_view name;  ///< a part of the device's name
  double bf16;            ///< TFLOP/s
  double fp32;
};

// The first match of whole words wins, so longer names precede the names they contain.
constexpr Peak kPeaks[] = {
    {"GB200", 2500, 80},  {"B200", 2250, 80}, {"H100 PCIe", 756, 51},  {"H100 NVL", 835, 60},
    {"GH200", 989, 67},   {"H100", 989, 67},  {"H200", 989, 67},       {"A100", 312, 19.5},
    {"A800", 312, 19.5},  {"H800", 989, 67},  {"L40S", 362, 91.6},     {"L4", 121, 30.3},
    {"A40", 149.7, 37.4}, {"A10", 125, 31.2}, {"RTX 4090", 165, 82.6}, {"RTX 3090", 71, 35.6},
};

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Whether `text` contains `words` with no letter or digit next to them.
bool has_words(std::string_view text, std::string_view words) {
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const size_t end = at + words.size();
    const bool begins = at == 0 || !is_letter_or_digit(text[at - 1]);
    if (begins && (end == text.size() || !is_letter_or_digit(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::optional<double> peak_flops(std::string_view device_name, DType precision, bool tf32) {
  for (const Peak& peak : kPeaks) {
    if (!has_words(device_name, peak.name)) continue;
    if (precision == DType::bf16) return 1e12 * peak.bf16;
    return 1e12 * (tf32 ? peak.bf16 / 2.0 : peak.fp32);  // TF32 runs at half the rate of bf16
  }
  return std::nullopt;
}

}  // namespace tessera
