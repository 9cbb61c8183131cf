#include "parallel/communicators/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/communicators/host/host_communicator.h"
#include "parallel/communicators/mpi/mpi_operations.h"
#include "parallel/communicators/mpi/mpi_pending.h"

namespace tessera {
namespace {

void* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(element) * size_of(tensor.dtype());
}

class MpiCommunicator final : public Communicator {
 public:
  /// Takes ownership of `comm`.
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<MpiContext> context, const Transport& transport)
      : Communicator(mpi_rank(comm), mpi_size(comm)),
        comm_(comm),
        context_(std::move(context)),
        transport_(transport) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  ~MpiCommunicator() override {
    // Freeing is collective; while an exception propagates, the other ranks may not take part.
    if (mpi_is_finalized() || std::uncaught_exceptions() != exceptions_) return;
    const Lock lock(context_->calls);
    MPI_Comm_free(&comm_);
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const Lock lock(context_->calls);
    // MPI accepts no negative colors, so they are numbered.
    std::vector<int> colors(static_cast<size_t>(size()));
    check_mpi(MPI_Allgather(&color, 1, MPI_INT, colors.data(), 1, MPI_INT, comm_), "split");
    std::sort(colors.begin(), colors.end());
    const auto unique_end = std::unique(colors.begin(), colors.end());
    const auto place = std::lower_bound(colors.begin(), unique_end, color) - colors.begin();
    MPI_Comm group = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(comm_, static_cast<int>(place), key, &group), "split");
    return make_communicator(group, context_, transport_);
  }

  std::string name() const override {
    return why_not_direct_ ? "mpi, no direct copies because " + *why_not_direct_ : "mpi";
  }

  /// Why ranks of one host do not copy directly, if there is a reason to report.
  void say_why_not_direct(std::optional<std::string> why_not) {
    why_not_direct_ = std::move(why_not);
  }

 private:
  using Lock = std::lock_guard<std::timed_mutex>;

  /// Construct before taking the lock, because the destructor takes it too if starting fails.
  std::unique_ptr<MpiPending> pending(const char* operation) const {
    return std::make_unique<MpiPending>(operation, context_);
  }

  /// Hands the requests to the progress thread, if there are any.
  static Pending started(std::unique_ptr<MpiPending> running, Wait wait) {
    if (wait == Wait::later) running->watch();
    return running;
  }

  // Calls body(first element, count) for pieces of [0, n) that fit into one MPI call.
  template <typename Body>
  void in_pieces(int64_t n, Body&& body) const {
    for (int64_t begin = 0; begin < n; begin += transport_.max_count) {
      body(begin, static_cast<int>(std::min(transport_.max_count, n - begin)));
    }
  }

  // Callers that wait at once get MPI's blocking operations. Open MPI's nonblocking ones are slower
  // for small tensors, and a nonblocking reduce-scatter sums in another order.

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    auto running = pending("all_reduce");
    const Lock lock(context_->calls);
    const MPI_Datatype type = mpi_datatype(tensor.dtype());
    const MPI_Op operation = context_->operations.get(tensor.dtype(), op);
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      void* data = at(tensor, begin);
      check_mpi(
          wait == Wait::at_once
              ? MPI_Allreduce(MPI_IN_PLACE, data, count, type, operation, comm_)
              : MPI_Iallreduce(MPI_IN_PLACE, data, count, type, operation, comm_, running->add()),
          "all_reduce");
    });
    return started(std::move(running), wait);
  }

  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    auto running = pending("all_gather");
    const Lock lock(context_->calls);
    const int64_t part = input.numel();
    const MPI_Datatype type = mpi_datatype(input.dtype());
    if (output.numel() <= transport_.max_count) {
      const int count = static_cast<int>(part);
      const void* own = is_own_part(input, output) ? MPI_IN_PLACE : input.raw();
      check_mpi(
          wait == Wait::at_once
              ? MPI_Allgather(own, count, type, output.raw(), count, type, comm_)
              : MPI_Iallgather(own, count, type, output.raw(), count, type, comm_, running->add()),
          "all_gather");
      return started(std::move(running), wait);
    }
    if (!is_own_part(input, output)) {
      std::memcpy(at(output, rank() * part), input.raw(), input.bytes());
    }
    for (int root = 0; root < size(); ++root) {
      in_pieces(part, [&](int64_t begin, int count) {
        void* data = at(output, root * part + begin);
        check_mpi(wait == Wait::at_once
                      ? MPI_Bcast(data, count, type, root, comm_)
                      : MPI_Ibcast(data, count, type, root, comm_, running->add()),
                  "all_gather");
      });
    }
    return started(std::move(running), wait);
  }

  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    auto running = pending("reduce_scatter");
    const Lock lock(context_->calls);
    const MPI_Datatype type = mpi_datatype(output.dtype());
    const MPI_Op operation = context_->operations.get(output.dtype(), op);
    // MPI's in-place reduce-scatter supports the first part only, and Open MPI's
    // MPI_Ireduce_scatter_block reduces everything to one rank, which then scatters it. A reduction
    // to each rank moves no more than a reduce-scatter must.
    if (wait == Wait::at_once && input.numel() <= transport_.max_count &&
        !is_own_part(output, input)) {
      check_mpi(MPI_Reduce_scatter_block(input.raw(), output.raw(),
                                         static_cast<int>(output.numel()), type, operation, comm_),
                "reduce_scatter");
      return started(std::move(running), wait);
    }
    for_each_part(input, output, [&](int root, const void* from, void* to, int count) {
      check_mpi(wait == Wait::at_once
                    ? MPI_Reduce(from, to, count, type, operation, root, comm_)
                    : MPI_Ireduce(from, to, count, type, operation, root, comm_, running->add()),
                "reduce_scatter");
    });
    return started(std::move(running), wait);
  }

  /// Calls reduce(root, from, to, count) for each rank's part of a reduce-scatter, in pieces.
  template <typename Reduce>
  void for_each_part(const Tensor& input, const Tensor& output, Reduce&& reduce) const {
    const int64_t part = output.numel();
    const bool in_place = is_own_part(output, input);
    for (int root = 0; root < size(); ++root) {
      in_pieces(part, [&](int64_t begin, int count) {
        const void* from =
            in_place && root == rank() ? MPI_IN_PLACE : at(input, root * part + begin);
        reduce(root, from, at(output, begin), count);
      });
    }
  }

  void do_broadcast(Tensor tensor, int root) override {
    const Lock lock(context_->calls);
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check_mpi(MPI_Bcast(at(tensor, begin), count, mpi_datatype(tensor.dtype()), root, comm_),
                "broadcast");
    });
  }

  void do_send(const Tensor& tensor, int destination) override {
    const Lock lock(context_->calls);
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check_mpi(MPI_Send(at(tensor, begin), count, mpi_datatype(tensor.dtype()), destination, kTag,
                         comm_),
                "send");
    });
  }

  void do_recv(Tensor tensor, int source) override {
    const Lock lock(context_->calls);
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      MPI_Status status;
      const MPI_Datatype type = mpi_datatype(tensor.dtype());
      check_mpi(MPI_Recv(at(tensor, begin), count, type, source, kTag, comm_, &status), "recv");
      int received = 0;
      check_mpi(MPI_Get_count(&status, type, &received), "recv");
      require(received == count, "recv: rank {} sent fewer elements than rank {} receives ({})",
              source, rank(), describe(tensor));
    });
  }

  void do_barrier() override {
    const Lock lock(context_->calls);
    check_mpi(MPI_Barrier(comm_), "barrier");
  }

  static constexpr int kTag = 0;

  MPI_Comm comm_;
  std::shared_ptr<MpiContext> context_;
  Transport transport_;
  std::optional<std::string> why_not_direct_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(MPI_Comm comm,
                                                const std::shared_ptr<MpiContext>& context,
                                                const Transport& transport) {
  auto messages = std::make_unique<MpiCommunicator>(comm, context, transport);
  if (transport.kind == MpiTransport::messages || messages->size() == 1) return messages;
  MpiHost::Group made = context->host.make_group(comm);
  messages->say_why_not_direct(made.why_not);
  if (made.group == nullptr) return messages;
  // An MPI call may return before all its data has left, and other ranks may wait for that data.
  made.group->set_while_waiting([calls = context.get()] {
    const std::unique_lock lock(calls->calls, std::try_to_lock);
    int found = 0;
    if (lock.owns_lock()) {
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
  });
  const std::shared_ptr<void> memory(made.memory.release(), [context](MpiSharedMemory* shared) {
    const std::lock_guard lock(context->calls);
    delete shared;
  });
  const std::shared_ptr<ProgressThread> thread(context, &context->thread);
  return make_host_communicator(std::move(messages), std::move(made.group), {memory, thread});
}

}  // namespace tessera
