#pragma once

#include <nccl.h>

namespace emulator {

/// Lets communicators of more than one rank fail on rank `rank`, of each, at its call number `call`
/// (from 0), which the other ranks then wait for, with `code` as its asynchronous error; `call` −1
/// is the connection. While one lives. TESSERA_EMULATOR_NCCL_FAULT=RANK:CALL asks for the same,
/// with ncclSystemError, of a whole process.
class NcclFault {
 public:
  NcclFault(int rank, int call, ncclResult_t code);
  ~NcclFault();
  NcclFault(const NcclFault&) = delete;
  NcclFault& operator=(const NcclFault&) = delete;
};

/// The code by which that call fails; ncclSuccess if it does not.
ncclResult_t nccl_fault(int rank, int call);

}  // namespace emulator
