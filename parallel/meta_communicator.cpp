#include "parallel/meta_communicator.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/trace/work_log.h"

namespace tessera {
namespace {

ParallelGroups groups_in(int64_t world_size, const GridShape& shape, Communicator& world) {
  const ProcessGrid grid(world_size, shape);
  return make_groups(grid, world, [&](const std::vector<int>& ranks, std::string_view name) {
    const auto rank = std::ranges::find(ranks, world.rank()) - ranks.begin();
    return std::make_shared<MetaCommunicator>(static_cast<int>(rank), narrow<int>(ranks.size()),
                                              std::string(name));
  });
}

/// Logs the wait for a collective that has started.
class LoggedCollective final : public PendingCollective {
 public:
  LoggedCollective(WorkLog& log, size_t transfer) : log_(&log), transfer_(transfer) {}
  ~LoggedCollective() override { end(); }

  void wait() override { end(); }
  // The result is never known to be in place before the wait.
  bool progress() override { return log_ == nullptr; }

 private:
  void end() {
    if (log_ != nullptr) std::exchange(log_, nullptr)->wait(transfer_);
  }

  WorkLog* log_;  // null once the wait is logged
  size_t transfer_;
};

}  // namespace

MetaCommunicator::MetaCommunicator(int rank, int size, std::string group)
    : Communicator(rank, size), group_(std::move(group)), tally_(size) {
  require(0 <= rank && rank < size, "meta communicator: rank {} is not one of {}", rank, size);
}

std::unique_ptr<PendingCollective> MetaCommunicator::start(Collective collective, size_t bytes) {
  tally_.add(collective, bytes);
  WorkLog* const log = WorkLog::current();
  if (log == nullptr || size() == 1) return std::make_unique<CompletedCollective>();
  const auto whole = narrow<int64_t>(bytes);
  const size_t transfer = log->start(
      {group_, size(), std::string(to_string(TrafficScope::current())),
       std::string(to_string(collective)), whole, bytes_sent(collective, size(), whole)});
  return std::make_unique<LoggedCollective>(*log, transfer);
}

std::unique_ptr<Communicator> MetaCommunicator::split(int /*color*/, int /*key*/) {
  fail("a meta communicator cannot be split, because it has no peers");
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_all_reduce(Tensor tensor, ReduceOp /*op*/,
                                                                   Wait /*wait*/) {
  return start(Collective::all_reduce, tensor.bytes());
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_all_gather(const Tensor& /*input*/,
                                                                   Tensor output, Wait /*wait*/) {
  return start(Collective::all_gather, output.bytes());
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_reduce_scatter(const Tensor& input,
                                                                       Tensor /*output*/,
                                                                       ReduceOp /*op*/,
                                                                       Wait /*wait*/) {
  return start(Collective::reduce_scatter, input.bytes());
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_exchange(std::span<const Message> messages,
                                                                 Wait /*wait*/) {
  return start(Collective::exchange, static_cast<size_t>(bytes_of(messages)));
}

void MetaCommunicator::do_broadcast(Tensor tensor, int /*root*/) {
  start(Collective::broadcast, tensor.bytes())->wait();
}

void MetaCommunicator::do_barrier() { start(Collective::barrier, 0)->wait(); }

const TrafficTally& GroupTraffic::of(std::string_view group) const {
  static const TrafficTally none;
  const auto found = std::ranges::find(groups_, group, [](const auto& each) { return each.first; });
  return found == groups_.end() ? none : found->second;
}

double GroupTraffic::bytes_sent() const {
  double sent = 0.0;
  for (const auto& [group, tally] : groups_) sent += tally.bytes_sent();
  return sent;
}

MetaGroups::MetaGroups(int64_t world_size, const GridShape& shape, int world_rank)
    : world_(world_rank, narrow<int>(world_size), "world"),
      groups_(groups_in(world_size, shape, world_)) {}

std::vector<TrafficTally*> MetaGroups::tallies() const {
  std::vector<TrafficTally*> tallies;
  for (Communicator* group : groups_.all()) {
    tallies.push_back(&static_cast<MetaCommunicator*>(group)->tally());
  }
  return tallies;
}

GroupTraffic MetaGroups::traffic() const {
  GroupTraffic traffic;
  std::vector<Communicator*> groups = groups_.all();
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());  // the world last
  for (Communicator* each : groups) {
    auto& group = static_cast<MetaCommunicator&>(*each);
    traffic.add(group.group(), group.tally());
  }
  return traffic;
}

}  // namespace tessera
