#pragma once

#include <nccl.h>

#include <exception>
#include <functional>
#include <string>

#include "core/cuda/watch.h"
#include "core/tensor.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

/// An ncclComm_t of one rank, on the calling thread's GPU. It does not block: what takes long runs
/// in the background, so that another rank's failure is noticed meanwhile, and every call here
/// watches for errors. After one, all handles of the calling thread are aborted, and every further
/// call throws: to free memory, as an abort does and as the destructors do that an exception
/// passes, waits for all work on the GPU, that of other communicators too, whose peers may be gone.
/// CUDA graphs that hold calls of a communicator must be gone before the last of the thread's
/// handles: an abort ends when they are.
class NcclHandle {
 public:
  /// Begins to connect the ranks of `group`; `id` is that of ncclGetUniqueId on one of them. Call
  /// ready() until it returns true.
  NcclHandle(const std::string& id, const Communicator& group);
  /// Waits for what is pending and frees the communicator, together with the group's other ranks;
  /// where an exception passes, aborts all of the thread's.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Whether all ranks are connected. Throws if they can not be.
  bool ready();

  /// Enqueues what `call(comm)` does; `operation` and `tensor` are named if it fails, then or
  /// later.
  void enqueue(const char* operation, const Tensor& tensor,
               const std::function<ncclResult_t(ncclComm_t comm)>& call);

  /// Throws if a connection has failed since, or had before.
  void look();

 private:
  ncclResult_t state();
  /// Aborts all of the thread's and throws unless `code` is success or in progress.
  void check(ncclResult_t code);
  ncclResult_t finish();
  RankError error_of(ncclResult_t code) const;
  /// Aborts all of the thread's, which then say why to whoever uses them.
  static void abort_all(const RankError& why);
  std::string last_operation() const;

  ncclComm_t comm_ = nullptr;
  int rank_;
  int size_;
  const char* operation_ = "the connection of the ranks";
  Tensor tensor_;      ///< of the last operation
  RankError failure_;  ///< why there is no comm_ any more
  int exceptions_ = std::uncaught_exceptions();
  cuda::Watch watch_;

  /// Among the handles of the calling thread while it lives.
  struct Registration {
    explicit Registration(NcclHandle* handle);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    NcclHandle* handle;
  };
  Registration registration_{this};
};

/// An id by which the ranks of one communicator find each other, to be sent to all of them.
std::string make_nccl_id();

}  // namespace tessera
