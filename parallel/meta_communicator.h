#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/traffic.h"
#include "parallel/process_grid.h"

namespace tessera {

/// A rank of a group of any size whose other ranks do not exist, for dry runs. Collectives check
/// their arguments, count their traffic in a tally and in the thread's work log, and leave all
/// tensors unchanged, but for a rank's messages to itself. Accepts tensors on the meta device and
/// in host memory. split() throws, because one rank alone cannot know the resulting groups.
class MetaCommunicator final : public Communicator {
 public:
  /// `group` names the group in a work log. Throws unless `rank` is in [0, size).
  MetaCommunicator(int rank, int size, std::string group = "ranks");

  const std::string& group() const { return group_; }
  /// Traffic since construction.
  TrafficTally& tally() { return tally_; }

  [[noreturn]] std::unique_ptr<Communicator> split(int color, int key) override;
  std::string name() const override { return "meta"; }

 private:
  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override;
  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override;
  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override;
  Pending do_exchange(std::span<const Message> messages, Wait wait) override;
  void do_broadcast(Tensor tensor, int root) override;
  void do_barrier() override;
  bool takes(Device device) const override { return device.is_cpu() || device.is_meta(); }

  /// Counts a collective that is pending.
  [[nodiscard]] Pending start(Collective collective, size_t bytes);

  std::string group_;
  TrafficTally tally_;
};

/// A rank's traffic, by the name of a group: "tensor", "data", "world". Groups of one rank, which
/// have none, may be missing.
class GroupTraffic {
 public:
  void add(const std::string& group, const TrafficTally& tally) {
    groups_.emplace_back(group, tally);
  }

  const std::vector<std::pair<std::string, TrafficTally>>& groups() const { return groups_; }
  /// Nothing for a group that is missing.
  const TrafficTally& of(std::string_view group) const;
  double bytes_sent() const;

 private:
  std::vector<std::pair<std::string, TrafficTally>> groups_;
};

/// The groups of one rank in a process grid whose other ranks do not exist, for dry runs.
class MetaGroups {
 public:
  /// Throws under the same conditions as ProcessGrid.
  MetaGroups(int64_t world_size, const GridShape& shape, int world_rank = 0);

  const ParallelGroups& groups() const { return groups_; }

  /// The tallies of all groups.
  std::vector<TrafficTally*> tallies() const;
  GroupTraffic traffic() const;

 private:
  MetaCommunicator world_;
  ParallelGroups groups_;
};

}  // namespace tessera
