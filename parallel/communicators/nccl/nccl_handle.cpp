#include "parallel/communicators/nccl/nccl_handle.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda/stream.h"
#include "core/error.h"
#include "core/threads/background_thread.h"
#include "parallel/communicators/nccl/nccl_error_text.h"

namespace tessera {
namespace {

ncclUniqueId parse_id(const std::string& text) {
  ncclUniqueId id;
  require(text.size() == sizeof(id.internal), "an id of NCCL has {} bytes, but {} arrived",
          sizeof(id.internal), text.size());
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

/// Aborts communicators of one GPU together: aborting one frees memory, which waits for the kernels
/// of the others until they are aborted too. NCCL 2.22 and later aborts them as a group; for older
/// versions, each gets a thread. Returns when all are gone, which requires that no CUDA graph
/// contains their calls.
void abort_together(const std::vector<ncclComm_t>& comms) {
  constexpr int kGroupAbort = 22200;  // 2.22.0
  int version = 0;
  ncclGetVersion(&version);
  if (version >= kGroupAbort) {
    ncclGroupStart();
    for (ncclComm_t comm : comms) ncclCommAbort(comm);
    ncclGroupEnd();
    return;
  }
  std::vector<std::thread> threads;
  for (ncclComm_t comm : comms) threads.emplace_back([comm] { ncclCommAbort(comm); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

/// The handles of a rank's thread, and the thread that polls them for errors.
struct NcclHandle::RankHandles {
  RankHandles() {
    cuda::check(cudaGetDevice(&device), "cudaGetDevice");
    poller.start([this] { poll(); });
  }
  ~RankHandles() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    poller.discard();
    for (std::thread& thread : aborts) thread.join();
  }
  RankHandles(const RankHandles&) = delete;
  RankHandles& operator=(const RankHandles&) = delete;

  /// Those of the calling thread, which live as long as one of its handles.
  static std::shared_ptr<RankHandles> of_thread() {
    thread_local std::weak_ptr<RankHandles> mine;
    std::shared_ptr<RankHandles> found = mine.lock();
    if (found == nullptr) mine = found = std::make_shared<RankHandles>();
    return found;
  }

  void poll() {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(500);
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kBetweenLooks, [&] { return ends; })) {
      for (NcclHandle* handle : all) {
        if (handle->comm_ == nullptr) continue;
        const ncclResult_t code = handle->state();
        if (code != ncclSuccess) abort(handle->error_of(code, ncclGetLastError(handle->comm_)));
      }
    }
  }

  /// Aborts all handles; later calls on them report `why`. Requires the mutex.
  void abort(const RankError& why) {
    std::vector<ncclComm_t> comms;
    for (NcclHandle* handle : all) {
      if (handle->comm_ == nullptr) continue;
      comms.push_back(std::exchange(handle->comm_, nullptr));
      handle->failure_ = why;
    }
    // Do not wait for their end: the rank may hold graphs that captured their calls. Their work on
    // the GPU ends meanwhile.
    if (comms.empty()) return;
    aborts.emplace_back([comms, device = device] {
      cudaSetDevice(device);  // otherwise NCCL may create a context on the first GPU
      abort_together(comms);
    });
  }

  /// Guards what follows, and the handles' members. Held during calls of NCCL, which may take long.
  std::mutex mutex;
  std::vector<NcclHandle*> all;
  std::vector<std::thread> aborts;  ///< joined with the last handle
  bool ends = false;
  std::condition_variable changed;
  int device = 0;
  BackgroundThread poller;
};

std::string make_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess) {
    fail("{}", nccl_error_text(
                   {"ncclGetUniqueId", ncclGetErrorString(code), ncclGetLastError(nullptr), 0, 1}));
  }
  return {id.internal, sizeof(id.internal)};
}

/// ncclCommInitRankConfig on a thread of its own, which nobody waits for.
struct NcclHandle::Creation {
  std::mutex mutex;
  bool done = false, unwanted = false;
  ncclComm_t comm = nullptr;
  ncclResult_t code = ncclSuccess;
  std::string last_error;  ///< of NCCL, if it failed

  static std::shared_ptr<Creation> start(const ncclUniqueId& id, int rank, int size) {
    int device = 0;
    cuda::check(cudaGetDevice(&device), "cudaGetDevice");
    auto creation = std::make_shared<Creation>();
    std::thread([creation, id, rank, size, device] {
      cudaSetDevice(device);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 1;
      ncclComm_t comm = nullptr;
      const ncclResult_t code = ncclCommInitRankConfig(&comm, size, id, rank, &config);
      const std::lock_guard lock(creation->mutex);
      creation->done = true;
      creation->code = code;
      creation->comm = comm;
      if (code != ncclSuccess) {
        creation->last_error = ncclGetLastError(nullptr);
      } else if (creation->unwanted) {
        ncclCommAbort(comm);
      }
    }).detach();
    return creation;
  }

  /// Aborts the communicator, now or when there is one.
  void abandon() {
    const std::lock_guard lock(mutex);
    unwanted = true;
    if (done && code == ncclSuccess) ncclCommAbort(comm);
  }
};

NcclHandle::NcclHandle(const std::string& id, const Communicator& group)
    : rank_handles_(RankHandles::of_thread()),
      rank_(group.rank()),
      size_(group.size()),
      watch_([this] { look(); }) {
  creation_ = Creation::start(parse_id(id), rank_, size_);
  const std::lock_guard lock(rank_handles_->mutex);
  rank_handles_->all.push_back(this);
}

NcclHandle::~NcclHandle() {
  if (creation_ != nullptr) creation_->abandon();
  std::unique_lock lock(rank_handles_->mutex);
  if (comm_ != nullptr && unwinds()) {
    rank_handles_->abort({"an error has aborted this rank's NCCL communicators", /*of_peer=*/true});
  }
  std::erase(rank_handles_->all, this);
  ncclComm_t comm = std::exchange(comm_, nullptr);
  lock.unlock();
  if (comm != nullptr) ncclCommDestroy(comm);
}

bool NcclHandle::ready() {
  const std::lock_guard held(rank_handles_->mutex);
  if (failure_) throw_error(failure_);
  if (creation_ == nullptr) return true;
  const std::shared_ptr<Creation> creation = creation_;
  const std::lock_guard lock(creation->mutex);
  if (!creation->done) return false;
  creation_ = nullptr;
  if (creation->code != ncclSuccess) {
    failure_ = error_of(creation->code, creation->last_error);
    throw_error(failure_);
  }
  comm_ = creation->comm;
  return true;
}

void NcclHandle::enqueue(const char* operation, const Tensor& tensor,
                         const std::function<ncclResult_t(ncclComm_t comm)>& call) {
  const std::lock_guard lock(rank_handles_->mutex);
  if (failure_) throw_error(failure_);
  operation_ = operation;
  tensor_ = tensor;
  check(call(comm_));
  // NCCL 2.28 leaves the result of a query behind, which the next check of a launch would find.
  if (cudaPeekAtLastError() == cudaErrorNotReady) cudaGetLastError();
}

void NcclHandle::look() {
  const std::lock_guard lock(rank_handles_->mutex);
  if (failure_) throw_error(failure_);
  if (comm_ != nullptr) check(state());
}

void NcclHandle::wait_for(cudaStream_t stream) noexcept {
  constexpr auto kLimit = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  std::unique_lock lock(rank_handles_->mutex);
  operation_ = "the end of the communicator";
  tensor_ = {};
  while (comm_ != nullptr) {
    if (unwinds()) {
      rank_handles_->abort(
          {"an error has aborted this rank's NCCL communicators", /*of_peer=*/true});
    } else if (cuda::is_done(cudaStreamQuery(stream))) {
      return;
    } else if (const ncclResult_t code = state(); code != ncclSuccess) {
      rank_handles_->abort(error_of(code, ncclGetLastError(comm_)));
    } else if (std::chrono::steady_clock::now() >= deadline) {
      rank_handles_->abort(
          {"other ranks did not finish their collectives within a minute", /*of_peer=*/true});
    } else {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
  }
}

ncclResult_t NcclHandle::state() {
  ncclResult_t now = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm_, &now);
  return code == ncclSuccess ? now : code;
}

void NcclHandle::check(ncclResult_t code) {
  if (code == ncclSuccess) return;
  const RankError error = error_of(code, ncclGetLastError(comm_));
  rank_handles_->abort(error);
  throw_error(error);
}

RankError NcclHandle::error_of(ncclResult_t code, const std::string& last_error) const {
  return {nccl_error_text({last_operation(), ncclGetErrorString(code), last_error, rank_, size_}),
          code == ncclRemoteError};
}

std::string NcclHandle::last_operation() const {
  return tensor_.defined() ? fmt::format("{} of {}", operation_, describe(tensor_)) : operation_;
}

}  // namespace tessera
