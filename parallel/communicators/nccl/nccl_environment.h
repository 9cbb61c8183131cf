#pragma once

namespace tessera {

/// Sets the environment variables of NCCL that Tessera relies on and the user has not set. Call it
/// before the first communicator and while no other thread reads the environment.
///
/// NCCL_LAUNCH_ORDER_IMPLICIT=1   kernels of all communicators start in the host's order: two that
///                                start in different orders on two GPUs deadlock
/// NCCL_RUNTIME_CONNECT=0         communicators connect when they are created, and not in their
/// first
///                                collectives, where the host would wait for other ranks
/// NCCL_GRAPH_REGISTER=0          CUDA graphs do not register their buffers, which come from
///                                cudaMalloc
/// NCCL_NVLS_ENABLE=0             if `deterministic` and the user has not set NCCL_ALGO: sums in
///                                NVSwitch have another order each time (NCCL issues 1497, 2360)
void set_nccl_environment(bool deterministic);

/// Whether NCCL keeps the order of launches: version 2.26 or later, unless the user has set
/// NCCL_LAUNCH_ORDER_IMPLICIT=0.
bool nccl_keeps_launch_order();

}  // namespace tessera
