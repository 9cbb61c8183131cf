#pragma once

#include <nccl.h>

namespace emulator {

/// While an object exists, communicators with more than one rank fail on rank `rank` at call number
/// `call` (from 0), or while connecting if `call` is −1. Other ranks wait for that call, and `code`
/// is the asynchronous error. TESSERA_EMULATOR_NCCL_FAULT=RANK:CALL does the same for a whole
/// process, with ncclSystemError.
class NcclFault {
 public:
  NcclFault(int rank, int call, ncclResult_t code);
  ~NcclFault();
  NcclFault(const NcclFault&) = delete;
  NcclFault& operator=(const NcclFault&) = delete;
};

/// Returns the code with which that call fails, or ncclSuccess.
ncclResult_t nccl_fault(int rank, int call);

}  // namespace emulator
