#pragma once

#include "launch/tools/plan/run_plan.h"

namespace tessera {

/// Assumptions of a prediction about the machine, all per rank. The defaults are round numbers for
/// an H100: 40% of the data sheet for products in bf16, all of its memory bandwidth, NVLink within
/// a tensor group, and a 400 Gbit/s network card between the data ranks.
struct AssumedMachine {
  double flops = 400e12;             ///< FLOP/s in products of wide matrices
  double memory_bandwidth = 3.3e12;  ///< bytes/s of the rank's own memory
  double tensor_bandwidth = 300e9;   ///< bytes/s sent to its tensor group
  double data_bandwidth = 40e9;      ///< bytes/s sent to its data group
  double latency = 20e-6;            ///< additional seconds per exchange

  /// The defaults for products in bf16, or in fp32 with a tenth of the FLOP/s.
  static AssumedMachine of(DType precision);
};

/// The parts of a step's predicted time, in seconds.
struct PredictedTime {
  double compute = 0.0;    ///< model_flops() per rank and Muon's, at product_efficiency()
  double recompute = 0.0;  ///< recomputation
  double passes = 0.0;     ///< memory passes besides products: optimizer, norms, GELUs
  double tensor = 0.0;     ///< exchanges within the tensor group, never hidden
  double data = 0.0;       ///< exchanges of data group and world, if not hidden
  double total() const { return compute + recompute + passes + tensor + data; }
};

/// The fraction of machine.flops that the products of a block's four layers reach on a rank. A
/// product (M, K) × (K, N) computes 2 MKN FLOPs and, in addition, reads or writes MK + KN + MN
/// elements of b bytes once. The product for the weight gradient, K × N, accumulates in fp32, with
/// 8 bytes per element instead of b. M is the tokens of a micro-batch; K and N are this rank's
/// shard. Returns the time-weighted mean over forward pass, both gradients, and layers.
double product_efficiency(const RunConfig& config, const AssumedMachine& machine);

/// Bytes that a rank reads and writes in a step besides products, each tensor once per pass: norms,
/// residual sums, GELUs, biases and the loss, forward and backward; then the optimizer (of Muon
/// also its products), the gradient norm and, with parallel.grad_reduce_dtype: bf16, converting
/// gradients.
double pass_bytes(const RunPlan& plan);

/// Predicts a step's time: (FLOPs + recomputed FLOPs + Muon's of all ranks) / (ranks × FLOP/s ×
/// product_efficiency()), plus bytes of memory passes and their recomputation / memory bandwidth,
/// plus the latency and bytes sent / bandwidth of each exchange. The gradient sum over the data
/// ranks overlaps with the last micro-batch's backward pass (two thirds of its time, plus
/// recomputation), except with run.device cpu, where the computing cores also exchange. Ignores
/// kernel launches and counts attention like products: use it only to compare layouts.
PredictedTime predict_time(const RunPlan& plan, const AssumedMachine& machine);

}  // namespace tessera
