#pragma once

#include "launch/tools/plan/run_plan.h"

namespace tessera {

/// What a prediction assumes of the machine, all of one rank. The defaults are round numbers for an
/// H100: of products in bf16 40% of the data sheet, of its memory all, NVLink within a tensor
/// group, and a network card of 400 Gbit/s between the data ranks.
struct AssumedMachine {
  double flops = 400e12;             ///< FLOP/s in products of wide matrices
  double memory_bandwidth = 3.3e12;  ///< bytes/s of its own memory
  double tensor_bandwidth = 300e9;   ///< bytes/s that it sends to its tensor group
  double data_bandwidth = 40e9;      ///< bytes/s that it sends to its data group
  double latency = 20e-6;            ///< seconds that each exchange takes besides

  /// The defaults for products in bf16 or fp32, which have a tenth of the FLOP/s.
  static AssumedMachine of(DType precision);
};

/// The parts of a step's predicted time, in seconds.
struct PredictedTime {
  double compute = 0.0;    ///< model_flops() of a rank, by product_efficiency()
  double recompute = 0.0;  ///< what is computed once more
  double passes = 0.0;     ///< what is read and written besides products: AdamW, norms, GELUs
  double tensor = 0.0;     ///< all exchanges within the tensor group, none of it hidden
  double data = 0.0;       ///< of the data group and the world, what no backward pass hides
  double total() const { return compute + recompute + passes + tensor + data; }
};

/// The part of machine.flops that the products of a block's four layers reach on a rank. A product
/// (M, K) × (K, N) computes 2 MKN FLOPs, and reads or writes MK + KN + MN elements of b bytes once,
/// which takes its time besides; the one that gives the gradient of the weights, K × N, adds to it
/// in fp32, which takes 8 bytes an element in place of b. For M tokens of a micro-batch, and the K
/// and N of this rank's shard: the mean over forward pass, both gradients, and layers, by time.
double product_efficiency(const RunConfig& config, const AssumedMachine& machine);

/// Bytes that a rank reads and writes in a step besides products, each tensor once a pass: norms,
/// sums of residuals, GELUs, biases and the loss, forward and backward, and in the end AdamW,
/// the norm of the gradient, and, where CUDA graphs add to it, its clearing.
double pass_bytes(const RunPlan& plan);

/// Predicts a step: (FLOPs + recomputed FLOPs) / (ranks × FLOP/s × product_efficiency()), what
/// passes over memory and is recomputed of it / its bandwidth, and of each exchange its latency and
/// the bytes sent / bandwidth. The gradients' sum over the data ranks overlaps with the backward
/// pass of the last micro-batch, two thirds of its time and what it recomputes, but with run.device
/// cpu, where the cores that compute exchange, too. Kernel launches are left out, and attention
/// counts as products do: it is a prediction to compare layouts by.
PredictedTime predict_time(const RunPlan& plan, const AssumedMachine& machine);

}  // namespace tessera
