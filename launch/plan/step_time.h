#pragma once

#include "launch/plan/run_plan.h"

namespace tessera {

/// What a prediction assumes of the machine, all of one rank. The defaults are round numbers for an
/// H100: of products in bf16 40% of the data sheet, of its memory all, NVLink within a tensor
/// group, and a network card of 400 Gbit/s between the data ranks.
struct AssumedMachine {
  double flops = 400e12;             ///< FLOP/s in products of wide matrices
  double memory_bandwidth = 3.3e12;  ///< bytes/s of its own memory
  double tensor_bandwidth = 300e9;   ///< bytes/s that it sends to its tensor group
  double data_bandwidth = 40e9;      ///< bytes/s that it sends to its data group

  /// The defaults for products in bf16 or fp32, which have a tenth of the FLOP/s.
  static AssumedMachine of(DType precision);
};

/// The parts of a step's predicted time, in seconds.
struct PredictedTime {
  double compute = 0.0;    ///< model_flops() of a rank, by product_efficiency()
  double recompute = 0.0;  ///< what is computed once more
  double tensor = 0.0;     ///< all exchanges within the tensor group, none of it hidden
  double data = 0.0;       ///< of the data group, what the last backward pass does not hide
  double total() const { return compute + recompute + tensor + data; }
};

/// The part of machine.flops that the four products of a block reach on a rank. A product
/// (M, K) × (K, N) computes 2 MKN FLOPs, and reads or writes MK + KN + MN elements of b bytes once,
/// which takes its time besides: so 1 / (1 + c (1/M + 1/K + 1/N)), where c = b/2 × FLOP/s ÷ bytes/s
/// of memory, for M tokens of a micro-batch and the K and N of this rank's shard; the mean over the
/// products by time.
double product_efficiency(const RunConfig& config, const AssumedMachine& machine);

/// Predicts a step: (FLOPs + recomputed FLOPs) / (ranks × FLOP/s × product_efficiency()), what
/// recomputed GELUs read and write, and bytes sent / bandwidth. The gradients' sum over the data
/// ranks overlaps with the backward pass of the last micro-batch, two thirds of its time and what
/// it recomputes. AdamW, norms, kernel launches and latencies are left out: it is a prediction to
/// compare layouts by.
PredictedTime predict_time(const RunPlan& plan, const AssumedMachine& machine);

}  // namespace tessera
