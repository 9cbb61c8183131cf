#include "parallel/communicators/nccl/nccl_environment.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tessera {

void set_nccl_environment(bool deterministic) {
  constexpr int kKeepIfSet = 0;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeepIfSet);
  setenv("NCCL_RUNTIME_CONNECT", "0", kKeepIfSet);
  setenv("NCCL_GRAPH_REGISTER", "0", kKeepIfSet);
  if (deterministic && std::getenv("NCCL_ALGO") == nullptr) {
    setenv("NCCL_NVLS_ENABLE", "0", kKeepIfSet);
  }
}

void log_nccl_to(const std::string& path) {
  if (std::getenv("NCCL_DEBUG") != nullptr) return;
  std::string escaped;  // % begins the name of a host or process
  for (const char c : path) escaped += c == '%' ? "%%" : std::string(1, c);
  constexpr int kReplace = 1;
  setenv("NCCL_DEBUG", "INFO", kReplace);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,GRAPH", kReplace);
  setenv("NCCL_DEBUG_FILE", escaped.c_str(), kReplace);
}

int nccl_most_multiprocessors() {
  const char* value = std::getenv("NCCL_MAX_CTAS");
  return value == nullptr ? 0 : std::max(0, std::atoi(value));
}

bool nccl_keeps_launch_order() {
  constexpr int kFirstVersion = 22600;
  int version = 0;
  ncclGetVersion(&version);
  const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return version >= kFirstVersion && value != nullptr && value != std::string_view("0");
}

// As in NCCL 2.28, getImplicitOrder in src/enqueue.cc.
std::string describe_launch_order(bool kept_by_nccl, int driver) {
  constexpr int kOverlaps = 12030, kOverlapsInGraphs = 12090;
  if (!kept_by_nccl) {
    return "one collective after another (without NCCL 2.26 or with NCCL_LAUNCH_ORDER_IMPLICIT=0)";
  }
  if (driver < kOverlaps)
    return "one collective after another (the driver is older than CUDA 12.3)";
  if (driver < kOverlapsInGraphs) {
    return "collectives overlap outside of CUDA graphs (the driver is older than CUDA 12.9)";
  }
  return "collectives overlap";
}

std::string describe_launch_order() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return describe_launch_order(nccl_keeps_launch_order(), driver);
}

bool nccl_may_share_gpus() {
  const char* value = std::getenv("TESSERA_TEST_NCCL_SHARES_GPU");
  return value != nullptr && value == std::string_view("1");
}

void set_nccl_environment_for_shared_gpus(int rank) {
  constexpr int kKeepIfSet = 0, kReplace = 1;
  setenv("NCCL_HOSTID", ("tessera-rank-" + std::to_string(rank)).c_str(), kReplace);
  setenv("NCCL_NET", "Socket", kKeepIfSet);
  setenv("NCCL_SOCKET_IFNAME", "lo", kKeepIfSet);
  setenv("NCCL_MAX_CTAS", "2", kKeepIfSet);
}

}  // namespace tessera
