#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace tessera {

/// Peaks of a GPU in NVIDIA's data sheets. A link moves `nvlink` bytes/s, half of them each way.
struct GpuPeaks {
  std::string_view name;          ///< a part of the device's name
  double bf16 = 0.0;              ///< dense FLOP/s of matrix products on tensor cores
  double fp32 = 0.0;              ///< FLOP/s without tensor cores
  double memory_bandwidth = 0.0;  ///< bytes/s
  double nvlink = 0.0;            ///< bytes/s to all other GPUs together, both ways; 0: none
  double memory = 0.0;            ///< bytes
  double fp8 = 0.0;  ///< like bf16, of linear_fp8 (core/ops/fp8.h); 0: only Hopper has it

  /// FLOP/s of matrix products: with tensor cores in bf16 and TF32, without them in fp32. Those of
  /// a run in FP8 that are not of codes are in bf16, and MFU is relative to that.
  double matmul_flops(DType precision, bool tf32) const;
  /// Makes them `flops`, those of other kinds at most as many, and the name that of any machine.
  void limit_matmul_flops(double flops, DType precision, bool tf32);
};

/// The peaks of a GPU of this name; nullopt for one that is not in the list.
std::optional<GpuPeaks> gpu_peaks(std::string_view device_name);

/// The names in the list: "B200, H100, H200".
std::string known_gpus();

/// matmul_flops() of a GPU of this name; nullopt for one that is not in the list.
std::optional<double> peak_flops(std::string_view device_name, DType precision, bool tf32 = false);

}  // namespace tessera
