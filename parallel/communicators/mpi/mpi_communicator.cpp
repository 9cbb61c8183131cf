#include "parallel/communicators/mpi/mpi_communicator.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/communicators/host/host_communicator.h"
#include "parallel/communicators/mpi/mpi_call.h"
#include "parallel/communicators/mpi/mpi_link.h"

namespace tessera {
namespace {

using Lock = std::lock_guard<std::timed_mutex>;

class MpiGroup final : public RankGroup {
 public:
  /// Takes ownership of `comm`.
  MpiGroup(MPI_Comm comm, std::shared_ptr<MpiContext> context, MpiTransport transport,
           std::string name)
      : comm_(comm),
        context_(std::move(context)),
        transport_(std::move(transport)),
        name_(std::move(name)) {}

  ~MpiGroup() override {
    // Freeing is collective; while an exception propagates, the other ranks may not take part.
    if (mpi_is_finalized() || std::uncaught_exceptions() != exceptions_) return;
    const Lock lock(context_->calls);
    MPI_Comm_free(&comm_);
  }

  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  std::unique_ptr<Communicator> split(int color, int key) override {
    const Lock lock(context_->calls);
    // MPI accepts no negative colors, so they are numbered.
    std::vector<int> colors(static_cast<size_t>(mpi_size(comm_)));
    check_mpi(MPI_Allgather(&color, 1, MPI_INT, colors.data(), 1, MPI_INT, comm_), "split");
    std::sort(colors.begin(), colors.end());
    const auto unique_end = std::unique(colors.begin(), colors.end());
    const auto place = std::lower_bound(colors.begin(), unique_end, color) - colors.begin();
    MPI_Comm group = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(comm_, static_cast<int>(place), key, &group), "split");
    return make_communicator(group, context_, transport_);
  }

  std::string name() const override { return name_; }

 private:
  MPI_Comm comm_;
  std::shared_ptr<MpiContext> context_;
  MpiTransport transport_;
  std::string name_;
  int exceptions_ = std::uncaught_exceptions();
};

/// Names how the ranks of `layout` communicate, for the start-up summary.
std::string name_of(const HostLayout& layout, const std::optional<std::string>& why_not_direct) {
  if (why_not_direct) return "mpi, no direct copies because " + *why_not_direct;
  if (layout.hosts() == layout.ranks()) return "mpi";
  if (layout.hosts() == 1) return "mpi, direct copies";
  return fmt::format("mpi between {} hosts, direct copies on each", layout.hosts());
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(MPI_Comm comm,
                                                const std::shared_ptr<MpiContext>& context,
                                                const MpiTransport& transport) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MpiHost::Members made = context->host.members_of(comm, transport);
  std::unique_ptr<HostLink> link;
  if (made.layout.hosts() > 1) link = make_mpi_link(comm, context, transport.max_bytes);
  auto ranks =
      std::make_unique<MpiGroup>(comm, context, transport, name_of(made.layout, made.why_not));
  auto group = std::make_unique<HostGroup>(made.layout, mpi_rank(comm), std::move(made.members),
                                           std::move(link));
  // An MPI call may return before all its data has left, and other ranks may wait for that data.
  group->set_while_waiting([calls = context.get()] {
    const std::unique_lock lock(calls->calls, std::try_to_lock);
    int found = 0;
    if (lock.owns_lock()) {
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
  });
  const std::shared_ptr<void> memory(made.memory.release(), [context](MpiHost::Memory* shared) {
    const std::lock_guard lock(context->calls);
    delete shared;
  });
  const std::shared_ptr<ProgressThread> thread(context, &context->thread);
  return make_host_communicator(std::move(ranks), std::move(group), {memory, thread});
}

}  // namespace tessera
