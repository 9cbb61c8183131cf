#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/traffic.h"
#include "parallel/process_grid.h"

namespace tessera::test {

/// Forwards collectives on host memory to another communicator, and adds them to a tally.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& inner)
      : Communicator(inner.rank(), inner.size()), tally(inner.size()), inner_(inner) {}

  std::unique_ptr<Communicator> split(int color, int key) override;
  std::string name() const override { return "counting"; }

  TrafficTally tally;

 private:
  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override;
  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override;
  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override;
  void do_broadcast(Tensor tensor, int root) override;
  void do_send(const Tensor& tensor, int destination) override;
  void do_recv(Tensor tensor, int source) override;
  void do_barrier() override;

  Communicator& inner_;
};

/// The groups of a rank, with counting communicators.
class CountingGroups {
 public:
  /// Collective.
  CountingGroups(Communicator& world, int tensor);

  /// Resets the tally.
  void reset();

  CountingCommunicator world;
  ParallelGroups inner;
  ParallelGroups groups;
  CountingCommunicator& tp;
  CountingCommunicator& dp;
};

}  // namespace tessera::test
