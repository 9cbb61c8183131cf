#pragma once

#include <memory>
#include <string_view>
#include <vector>

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
  Pending do_exchange(std::span<const Message> messages, Wait wait) override;
  void do_barrier() override;

  Communicator& inner_;
};

/// The groups of a rank, with counting communicators.
class CountingGroups {
 public:
  /// Collective.
  CountingGroups(Communicator& world, const GridShape& shape);

  /// The tally of the group with this label.
  const TrafficTally& tally(std::string_view group) const;
  /// Resets the tallies.
  void reset();

 private:
  ParallelGroups make_counting(const ProcessGrid& grid, Communicator& all);

  CountingCommunicator world_;
  std::vector<std::unique_ptr<Communicator>> inner_;

 public:
  ParallelGroups groups;
};

}  // namespace tessera::test
