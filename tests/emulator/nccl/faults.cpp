#include "tests/emulator/nccl/faults.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "tests/emulator/nccl/clique.h"

namespace emulator {
namespace {

struct Fault {
  int rank = -1, call = 0;
  ncclResult_t code = ncclSuccess;
};

Fault asked_of_process() {
  Fault requested;
  const char* text = std::getenv("TESSERA_EMULATOR_NCCL_FAULT");
  if (text == nullptr) return requested;
  if (std::sscanf(text, "%d:%d", &requested.rank, &requested.call) != 2) {
    nccl_fail(std::string("TESSERA_EMULATOR_NCCL_FAULT must be RANK:CALL, but is ") + text);
  }
  requested.code = ncclSystemError;
  return requested;
}

std::mutex mutex;
Fault fault = asked_of_process();

}  // namespace

NcclFault::NcclFault(int rank, int call, ncclResult_t code) {
  const std::lock_guard lock(mutex);
  fault = {rank, call, code};
}

NcclFault::~NcclFault() {
  const std::lock_guard lock(mutex);
  fault = {};
}

ncclResult_t nccl_fault(int rank, int call) {
  const std::lock_guard lock(mutex);
  return fault.rank == rank && fault.call == call ? fault.code : ncclSuccess;
}

}  // namespace emulator
