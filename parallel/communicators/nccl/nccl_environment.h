#pragma once

#include <string>

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

/// Lets this process's NCCL write to `path` which rings, trees and transports it has found, unless
/// the user has set NCCL_DEBUG: the order of sums depends on them, and no function returns them.
/// Replaces the file when the first communicator connects. To be called like set_nccl_environment.
void log_nccl_to(const std::string& path);

/// The most multiprocessors that a kernel of NCCL takes, as the user has said with NCCL_MAX_CTAS; 0
/// if not.
int nccl_most_multiprocessors();

/// Whether NCCL keeps the order of launches: version 2.26 or later, unless the user has set
/// NCCL_LAUNCH_ORDER_IMPLICIT=0.
bool nccl_keeps_launch_order();

/// Whether collectives of a rank's communicators may run at the same time, for the start-up
/// summary: "collectives overlap", or why NCCL or Tessera runs one after another. NCCL keeps the
/// order of launches by edges between kernels if the driver has them, and otherwise by waiting for
/// the end of the one before. `driver` is as from cudaDriverGetVersion: 13000 for CUDA 13.0.
std::string describe_launch_order(bool kept_by_nccl, int driver);
/// For the driver in use.
std::string describe_launch_order();

/// Whether ranks that share a GPU may use NCCL, as TESSERA_TEST_NCCL_SHARES_GPU=1 says: for tests
/// of NCCL with more ranks than GPUs.
bool nccl_may_share_gpus();

/// Lets NCCL connect ranks that share a GPU, each a process: it refuses two of one host, so each
/// claims to be a host of its own. They then exchange tensors by sockets of the loopback interface.
/// A GPU without MPS runs the kernels of one process at a time, so a collective takes milliseconds.
/// To be called like set_nccl_environment.
///
/// NCCL_HOSTID                    differs for each rank; a value that the user has set is replaced
/// NCCL_NET=Socket,
/// NCCL_SOCKET_IFNAME=lo          unless set: sockets of this host, whatever network it has
/// NCCL_MAX_CTAS=2                unless set: kernels that wait for each other leave room
void set_nccl_environment_for_shared_gpus(int rank);

}  // namespace tessera
