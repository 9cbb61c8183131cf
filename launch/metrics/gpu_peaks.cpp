#include "launch/metrics/gpu_peaks.h"

#include <algorithm>
#include <cctype>

namespace tessera {
namespace {

/// TFLOP/s, TFLOP/s, GB/s, GB/s, GB, TFLOP/s.
constexpr GpuPeaks peaks(std::string_view name, double bf16, double fp32, double memory_bandwidth,
                         double nvlink, double memory, double fp8 = 0.0) {
  return {name,         1e12 * bf16,  1e12 * fp32, 1e9 * memory_bandwidth,
          1e9 * nvlink, 1e9 * memory, 1e12 * fp8};
}

// The first match of whole words wins, so longer names precede the names they contain.
constexpr GpuPeaks kPeaks[] = {
    peaks("GB200", 2500, 80, 8000, 1800, 186),
    peaks("B200", 2250, 80, 8000, 1800, 180),
    peaks("H100 PCIe", 756, 51, 2000, 600, 80, 1513),
    peaks("H100 NVL", 835, 60, 3900, 600, 94, 1671),
    peaks("GH200", 989, 67, 4000, 900, 96, 1979),
    peaks("H100", 989, 67, 3350, 900, 80, 1979),
    peaks("H200", 989, 67, 4800, 900, 141, 1979),
    peaks("A100-SXM4-40GB", 312, 19.5, 1555, 600, 40),
    peaks("A100-PCIE-40GB", 312, 19.5, 1555, 600, 40),
    peaks("A100 80GB PCIe", 312, 19.5, 1935, 600, 80),
    peaks("A100", 312, 19.5, 2039, 600, 80),
    peaks("A800", 312, 19.5, 2039, 400, 80),
    peaks("H800", 989, 67, 3350, 400, 80, 1979),
    peaks("L40S", 362, 91.6, 864, 0, 48),
    peaks("L4", 121, 30.3, 300, 0, 24),
    peaks("A40", 149.7, 37.4, 696, 112.5, 48),
    peaks("A10", 125, 31.2, 600, 0, 24),
    peaks("RTX 4090", 165, 82.6, 1008, 0, 24),
    peaks("RTX 3090", 71, 35.6, 936, 112.5, 24),
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

double GpuPeaks::matmul_flops(DType precision, bool tf32) const {
  if (precision == DType::bf16) return bf16;
  return tf32 ? bf16 / 2.0 : fp32;  // TF32 runs at half the rate of bf16
}

void GpuPeaks::limit_matmul_flops(double flops, DType precision, bool tf32) {
  name = "such a machine";
  bf16 = precision == DType::bf16 ? flops : 2.0 * flops;
  fp8 = 2.0 * bf16;
  fp32 = precision == DType::f32 && !tf32 ? flops : std::min(fp32, flops);
}

std::optional<GpuPeaks> gpu_peaks(std::string_view device_name) {
  for (const GpuPeaks& peak : kPeaks) {
    if (has_words(device_name, peak.name)) return peak;
  }
  return std::nullopt;
}

std::string known_gpus() {
  std::string names;
  for (const GpuPeaks& peak : kPeaks) {
    names += (names.empty() ? "" : ", ") + std::string(peak.name);
  }
  return names;
}

std::optional<double> peak_flops(std::string_view device_name, DType precision, bool tf32) {
  const std::optional<GpuPeaks> peak = gpu_peaks(device_name);
  return peak ? std::optional(peak->matmul_flops(precision, tf32)) : std::nullopt;
}

}  // namespace tessera
