#pragma once

#include <cstdint>

#include "core/accumulate.h"
#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/block_codes.h"
#include "core/ops/clip.h"
#include "core/ops/dropout.h"
#include "core/ops/fp8.h"
#include "core/ops/lion.h"
#include "core/ops/matrix.h"
#include "core/ops/muon.h"
#include "core/ops/position_bias.h"
#include "core/ops/query_groups.h"
#include "core/ops/rotary.h"
#include "core/ops/scalar.h"
#include "core/ops/value_loss.h"
#include "core/range.h"
#include "core/tensor.h"

/// The devices' implementations of the ops, declared once for all devices. The ops in
/// core/ops/dispatch/ check the arguments before they call one of these.

/// Works on host memory and returns when done. parallel_for splits the loops over this rank's
/// threads; `omp simd` vectorizes them.
namespace tessera::cpu {
#include "core/ops/device_ops.inc"
}  // namespace tessera::cpu

/// Works on a GPU's memory: enqueues kernels on the calling thread's stream and returns.
namespace tessera::cuda {
#include "core/ops/device_ops.inc"
}  // namespace tessera::cuda

/// Computes nothing: adds an op's work to the calling thread's WorkLog, if it has one.
namespace tessera::meta {
#include "core/ops/device_ops.inc"
}  // namespace tessera::meta
