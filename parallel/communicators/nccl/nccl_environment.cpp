#include "parallel/communicators/nccl/nccl_environment.h"

#include <nccl.h>

#include <cstdlib>
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

}  // namespace tessera
