#include "tests/support/runs/counting_communicator.h"

#include "core/error.h"

namespace tessera::test {

std::unique_ptr<Communicator> CountingCommunicator::split(int /*color*/, int /*key*/) {
  fail("a counting communicator cannot be split");
}

std::unique_ptr<PendingCollective> CountingCommunicator::do_all_reduce(Tensor tensor, ReduceOp op,
                                                                       Wait wait) {
  tally.add(Collective::all_reduce, tensor.bytes());
  return inner_.all_reduce_async(tensor, op, wait);
}

std::unique_ptr<PendingCollective> CountingCommunicator::do_all_gather(const Tensor& input,
                                                                       Tensor output, Wait wait) {
  tally.add(Collective::all_gather, output.bytes());
  return inner_.all_gather_async(input, output, wait);
}

std::unique_ptr<PendingCollective> CountingCommunicator::do_reduce_scatter(const Tensor& input,
                                                                           Tensor output,
                                                                           ReduceOp op, Wait wait) {
  tally.add(Collective::reduce_scatter, input.bytes());
  return inner_.reduce_scatter_async(input, output, op, wait);
}

void CountingCommunicator::do_broadcast(Tensor tensor, int root) {
  tally.add(Collective::broadcast, tensor.bytes());
  inner_.broadcast(tensor, root);
}

std::unique_ptr<PendingCollective> CountingCommunicator::do_exchange(
    std::span<const Message> messages, Wait wait) {
  tally.add(Collective::exchange, static_cast<size_t>(bytes_of(messages)));
  return inner_.exchange_async(messages, wait);
}

void CountingCommunicator::do_barrier() {
  tally.add(Collective::barrier, 0);
  inner_.barrier();
}

CountingGroups::CountingGroups(Communicator& all, const GridShape& shape)
    : world_(all), groups(make_counting(ProcessGrid(all.size(), shape), all)) {}

ParallelGroups CountingGroups::make_counting(const ProcessGrid& grid, Communicator& all) {
  return make_groups(grid, world_, [&](const std::vector<int>& ranks, std::string_view /*name*/) {
    inner_.push_back(all.split(ranks.front(), all.rank()));
    return std::make_shared<CountingCommunicator>(*inner_.back());
  });
}

const TrafficTally& CountingGroups::tally(std::string_view group) const {
  for (Communicator* each : groups.all()) {
    if (each->label().name == group) return static_cast<CountingCommunicator*>(each)->tally;
  }
  fail("no group is called {}", group);
}

void CountingGroups::reset() {
  for (Communicator* each : groups.all()) {
    static_cast<CountingCommunicator*>(each)->tally = TrafficTally(each->size());
  }
}

}  // namespace tessera::test
