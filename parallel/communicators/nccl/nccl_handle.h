#pragma once

#include <nccl.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "core/cuda/wait_check.h"
#include "core/tensor.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

/// One rank's ncclComm_t on the calling thread's GPU. It is a blocking one, because NCCL starts a
/// thread for each call of a non-blocking one; what may wait for other ranks without end, its
/// creation and its abort, runs on threads of its own. Every call here checks for errors, and so
/// does a thread beside the rank's, because the driver may block that where it does not check:
/// while it loads a kernel or allocates, and a collective waits for a peer that is gone. That
/// thread waits while the rank is inside a call of NCCL. After an error, all handles of the calling
/// thread are aborted and every later call throws. Freeing memory, as an abort and the destructors
/// during unwinding do, waits for all work on the GPU, including that of other communicators whose
/// peers may be gone. CUDA graphs that contain calls of a communicator must be destroyed before the
/// thread's last handle: an abort completes only after they are.
class NcclHandle {
 public:
  /// Starts connecting the ranks of `group`; `id` is from ncclGetUniqueId on one of them. Call
  /// ready() until it returns true.
  NcclHandle(const std::string& id, const Communicator& group);
  /// Frees the communicator together with the group's other ranks; wait_for() its streams before.
  /// While an exception propagates, aborts all handles of the thread.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Whether all ranks are connected. Throws if they cannot be.
  bool ready();

  /// Enqueues the work of `call(comm)`. If it fails, now or later, the error names `operation` and
  /// `tensor`. The host waits for the peer at the first message between two ranks.
  void enqueue(const char* operation, const Tensor& tensor,
               const std::function<ncclResult_t(ncclComm_t comm)>& call);

  /// Throws if a connection fails or has failed.
  void look();

  /// Waits for the work of a stream, for a minute at most. Aborts all handles of the thread instead
  /// if the communicator fails or an exception propagates.
  void wait_for(cudaStream_t stream) noexcept;

 private:
  struct Creation;
  struct RankHandles;

  // The functions below require the mutex of rank_handles_.
  ncclResult_t state();
  /// Unless `code` is success, aborts all handles of the thread and throws.
  void check(ncclResult_t code);
  RankError error_of(ncclResult_t code, const std::string& last_error) const;
  std::string last_operation() const;
  bool unwinds() const { return std::uncaught_exceptions() > exceptions_; }

  std::shared_ptr<RankHandles> rank_handles_;
  std::shared_ptr<Creation> creation_;  ///< null when it is done
  ncclComm_t comm_ = nullptr;
  int rank_;
  int size_;
  const char* operation_ = "the connection of the ranks";
  Tensor tensor_;      ///< tensor of the last operation
  RankError failure_;  ///< why comm_ was aborted
  int exceptions_ = std::uncaught_exceptions();
  cuda::WaitCheck watch_;
};

/// Creates the id by which the ranks of one communicator find each other; send it to all of them.
std::string make_nccl_id();

}  // namespace tessera
