#include "parallel/meta_communicator.h"

#include "core/error.h"

namespace tessera {
namespace {

ParallelGroups groups_in(const ProcessGrid& grid, Communicator& world) {
  const GridPlace place = grid.place_of(world.rank());
  return {grid, world, std::make_unique<MetaCommunicator>(place.tensor_index, grid.tensor()),
          std::make_unique<MetaCommunicator>(place.data_index, grid.data())};
}

TrafficTally* tally_of(Communicator& group) {
  return &static_cast<MetaCommunicator&>(group).tally();
}

}  // namespace

MetaCommunicator::MetaCommunicator(int rank, int size) : Communicator(rank, size), tally_(size) {
  require(0 <= rank && rank < size, "meta communicator: rank {} is not one of {}", rank, size);
}

std::unique_ptr<Communicator> MetaCommunicator::split(int /*color*/, int /*key*/) {
  fail("a meta communicator cannot be split: its other ranks are not there to say their colors");
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_all_reduce(Tensor tensor, ReduceOp /*op*/,
                                                                   Wait /*wait*/) {
  tally_.add(Collective::all_reduce, tensor.bytes());
  return std::make_unique<CompletedCollective>();
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_all_gather(const Tensor& /*input*/,
                                                                   Tensor output, Wait /*wait*/) {
  tally_.add(Collective::all_gather, output.bytes());
  return std::make_unique<CompletedCollective>();
}

std::unique_ptr<PendingCollective> MetaCommunicator::do_reduce_scatter(const Tensor& input,
                                                                       Tensor /*output*/,
                                                                       ReduceOp /*op*/,
                                                                       Wait /*wait*/) {
  tally_.add(Collective::reduce_scatter, input.bytes());
  return std::make_unique<CompletedCollective>();
}

void MetaCommunicator::do_broadcast(Tensor tensor, int /*root*/) {
  tally_.add(Collective::broadcast, tensor.bytes());
}

void MetaCommunicator::do_send(const Tensor& tensor, int /*destination*/) {
  tally_.add(Collective::send, tensor.bytes());
}

void MetaCommunicator::do_recv(Tensor tensor, int /*source*/) {
  tally_.add(Collective::recv, tensor.bytes());
}

void MetaCommunicator::do_barrier() { tally_.add(Collective::barrier, 0); }

MetaGroups::MetaGroups(int world_size, int tensor, int world_rank)
    : world_(world_rank, world_size),
      groups_(groups_in(ProcessGrid(world_size, tensor), world_)),
      tallies_{&world_.tally(), tally_of(*groups_.tp), tally_of(*groups_.dp)} {}

}  // namespace tessera
