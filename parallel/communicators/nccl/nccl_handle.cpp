#include "parallel/communicators/nccl/nccl_handle.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
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

thread_local std::vector<NcclHandle*> handles;
/// Threads that abort the calling thread's communicators; joined with the last handle.
thread_local std::vector<std::thread> aborts;

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

NcclHandle::Registration::Registration(NcclHandle* handle_) : handle(handle_) {
  handles.push_back(handle);
}

NcclHandle::Registration::~Registration() {
  std::erase(handles, handle);
  if (!handles.empty()) return;
  for (std::thread& thread : aborts) thread.join();
  aborts.clear();
}

std::string make_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess) {
    fail("{}", nccl_error_text(
                   {"ncclGetUniqueId", ncclGetErrorString(code), ncclGetLastError(nullptr), 0, 1}));
  }
  return {id.internal, sizeof(id.internal)};
}

NcclHandle::NcclHandle(const std::string& id, const Communicator& group)
    : rank_(group.rank()), size_(group.size()), watch_([this] { look(); }) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check(ncclCommInitRankConfig(&comm_, size_, parse_id(id), rank_, &config));
}

NcclHandle::~NcclHandle() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    abort_all({"an error has ended this rank's communicators of NCCL", /*of_peer=*/true});
  } else if (const ncclResult_t code = finish(); code != ncclSuccess) {
    abort_all(error_of(code));
  }
}

bool NcclHandle::ready() {
  const ncclResult_t now = state();
  check(now);
  return now == ncclSuccess;
}

void NcclHandle::enqueue(const char* operation, const Tensor& tensor,
                         const std::function<ncclResult_t(ncclComm_t comm)>& call) {
  if (failure_) throw_error(failure_);
  operation_ = operation;
  tensor_ = tensor;
  check(call(comm_));
  // The first operations of a kind connect ranks in the background, and are enqueued after that.
  // What the call returned does not tell: some versions of ncclSend say success too early.
  if (!ready()) cuda::WaitCheck::wait_until([&] { return ready(); });
}

void NcclHandle::look() {
  if (failure_) throw_error(failure_);
  if (comm_ != nullptr) check(state());
}

ncclResult_t NcclHandle::state() {
  ncclResult_t now = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm_, &now);
  return code == ncclSuccess ? now : code;
}

void NcclHandle::check(ncclResult_t code) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  const RankError error = error_of(code);
  abort_all(error);
  throw_error(error);
}

RankError NcclHandle::error_of(ncclResult_t code) const {
  const std::string text = nccl_error_text(
      {last_operation(), ncclGetErrorString(code), ncclGetLastError(comm_), rank_, size_});
  // An operation still in progress waits for other ranks, so the error is a peer's.
  return {text, code == ncclRemoteError || code == ncclInProgress};
}

std::string NcclHandle::last_operation() const {
  return tensor_.defined() ? fmt::format("{} of {}", operation_, describe(tensor_)) : operation_;
}

void NcclHandle::abort_all(const RankError& why) {
  std::vector<ncclComm_t> comms;
  for (NcclHandle* handle : handles) {
    if (handle->comm_ == nullptr) continue;
    comms.push_back(std::exchange(handle->comm_, nullptr));
    handle->failure_ = why;
  }
  // Do not wait for their end: the caller may hold graphs that captured their calls. Their work on
  // the GPU ends meanwhile.
  if (!comms.empty()) aborts.emplace_back([comms] { abort_together(comms); });
}

// Returns ncclInProgress if the other ranks do not finish together with this one.
ncclResult_t NcclHandle::finish() {
  constexpr auto kLimit = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  operation_ = "the end of the communicator";
  tensor_ = {};
  ncclResult_t code = ncclCommFinalize(comm_);
  while (code == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    code = state();
  }
  if (code != ncclSuccess) return code;
  ncclCommDestroy(comm_);
  comm_ = nullptr;
  return code;
}

}  // namespace tessera
