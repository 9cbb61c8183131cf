#include "tests/simt/nccl/faults.h"

#include <mutex>

namespace simt {
namespace {

struct Fault {
  int rank = -1, call = 0;
  ncclResult_t code = ncclSuccess;
};

std::mutex mutex;
Fault fault;

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

}  // namespace simt
