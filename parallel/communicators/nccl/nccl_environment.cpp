#include "parallel/communicators/nccl/nccl_environment.h"

#include <nccl.h>

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

bool nccl_keeps_launch_order() {
  constexpr int kFirstVersion = 22600;
  int version = 0;
  ncclGetVersion(&version);
  const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return version >= kFirstVersion && value != nullptr && value != std::string_view("0");
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
