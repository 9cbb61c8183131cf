#include "parallel/communicators/mpi/mpi_link.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/communicators/mpi/mpi_call.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using Progress = Progressable::Progress;

/// An MPI call that takes longer than this has copied something and may do so again; a call that
/// finds nothing to do takes a tenth of it.
constexpr std::chrono::microseconds kDidSomething{5};

class MpiTransfers final : public HostLink::Transfers {
 public:
  MpiTransfers(MPI_Comm comm, std::shared_ptr<MpiContext> context, size_t max_bytes)
      : comm_(comm), context_(std::move(context)), max_bytes_(max_bytes) {}

  // Requests are left only if an error ends the process.
  ~MpiTransfers() override {
    if (requests_.empty() || mpi_is_finalized()) return;
    const std::lock_guard lock(context_->calls);
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (messages_[i].received) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }

  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;

  void send(int rank, int tag, const void* data, size_t bytes) override {
    in_pieces(bytes, [&](size_t begin, int count) {
      check_mpi(MPI_Isend(static_cast<const std::byte*>(data) + begin, count, MPI_BYTE, rank, tag,
                          comm_, add({rank, count, false})),
                "sending to another host");
    });
  }

  void receive(int rank, int tag, void* data, size_t bytes) override {
    in_pieces(bytes, [&](size_t begin, int count) {
      check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + begin, count, MPI_BYTE, rank, tag, comm_,
                          add({rank, count, true})),
                "receiving from another host");
    });
  }

  Progress progress() override {
    if (requests_.empty()) return Progress::finished;
    std::vector<MPI_Status> statuses(requests_.size());
    int done = 0;
    const auto begin = Clock::now();
    {
      const std::lock_guard lock(context_->calls);
      check_mpi(
          MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data()),
          "a message between hosts");
    }
    if (done == 0) {
      return Clock::now() - begin > kDidSomething ? Progress::some : Progress::nothing;
    }
    for (size_t i = 0; i < statuses.size(); ++i) {
      const Message& message = messages_[i];
      if (!message.received) continue;
      int count = 0;
      check_mpi(MPI_Get_count(&statuses[i], MPI_BYTE, &count), "a message between hosts");
      require(count == message.bytes,
              "rank {} of the group has sent {} bytes, but this rank expects {}: they call "
              "different collectives",
              message.rank, count, message.bytes);
    }
    requests_.clear();
    messages_.clear();
    return Progress::finished;
  }

 private:
  struct Message {
    int rank;
    int bytes;
    bool received;
  };

  template <typename Start>
  void in_pieces(size_t bytes, Start&& start) {
    const std::lock_guard lock(context_->calls);
    size_t begin = 0;
    do {  // once if there are no bytes
      const size_t count = std::min(max_bytes_, bytes - begin);
      start(begin, static_cast<int>(count));
      begin += count;
    } while (begin < bytes);
  }

  MPI_Request* add(const Message& message) {
    messages_.push_back(message);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }

  MPI_Comm comm_;
  std::shared_ptr<MpiContext> context_;
  size_t max_bytes_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // of the requests
};

class MpiLink final : public HostLink {
 public:
  MpiLink(MPI_Comm comm, std::shared_ptr<MpiContext> context, size_t max_bytes)
      : comm_(comm), context_(std::move(context)), max_bytes_(max_bytes) {}

  std::unique_ptr<Transfers> start() override {
    return std::make_unique<MpiTransfers>(comm_, context_, max_bytes_);
  }

 private:
  MPI_Comm comm_;
  std::shared_ptr<MpiContext> context_;
  size_t max_bytes_;
};

}  // namespace

std::unique_ptr<HostLink> make_mpi_link(MPI_Comm comm, std::shared_ptr<MpiContext> context,
                                        size_t max_bytes) {
  return std::make_unique<MpiLink>(comm, std::move(context), max_bytes);
}

}  // namespace tessera
