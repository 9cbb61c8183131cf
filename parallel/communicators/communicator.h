#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace tessera {

/// The max of numbers among which there is a NaN is NaN. Integer sums wrap around.
enum class ReduceOp : uint8_t { sum, max };

constexpr std::string_view to_string(ReduceOp op) { return op == ReduceOp::sum ? "sum" : "max"; }

/// A collective that was started and may still run. Destroying it waits for it.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  /// Returns when the result is in place. May be called more than once.
  virtual void wait() = 0;
  /// Moves the transfer on without blocking; true when the result is in place.
  virtual bool progress() = 0;
};

/// A collective with nothing left to do.
class CompletedCollective final : public PendingCollective {
 public:
  void wait() override {}
  bool progress() override { return true; }
};

/// A group of ranks that call the same collectives in the same order. Collectives take Tensors of
/// any dtype and contiguous shape, never counts of bytes; all ranks pass the same shape and dtype.
/// A group of one is no special case for its callers. On meta tensors a collective checks its
/// arguments and returns.
///
/// Sums run in the tensor's dtype and give the same bits on every rank of the group.
///
/// Of a GPU's tensors a communicator takes those of the calling thread's device. It sees what was
/// enqueued on that thread's stream before the call, and what is enqueued after it (or, of a
/// pending collective, after its wait()) sees the result; the host waits only where it has to.
///
/// If a rank fails, every other rank's pending or next call throws or the process ends: no call
/// waits for ever.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// tensor = op over all ranks' tensors, elementwise and in place.
  void all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum);

  /// As all_reduce, but returns at once; `tensor` may not be touched until the result's wait().
  /// Collectives of a group that are pending together were started in the same order on all ranks.
  [[nodiscard]] std::unique_ptr<PendingCollective> all_reduce_async(Tensor tensor,
                                                                    ReduceOp op = ReduceOp::sum);

  /// output = the ranks' inputs one after the other; output has size() times input's elements.
  /// `input` may be this rank's part of `output`, in its place; else the two may not overlap.
  void all_gather(const Tensor& input, Tensor output);

  /// output = this rank's part of the elementwise op over all ranks' inputs; input has size()
  /// times output's elements. `output` may be this rank's part of `input`, in its place, and then
  /// nothing is known of the other parts afterwards; else the two may not overlap.
  void reduce_scatter(const Tensor& input, Tensor output, ReduceOp op = ReduceOp::sum);

  /// As all_gather and reduce_scatter, but these return at once, as all_reduce_async does: neither
  /// tensor may be touched until the result's wait().
  [[nodiscard]] std::unique_ptr<PendingCollective> all_gather_async(const Tensor& input,
                                                                    Tensor output);
  [[nodiscard]] std::unique_ptr<PendingCollective> reduce_scatter_async(
      const Tensor& input, Tensor output, ReduceOp op = ReduceOp::sum);

  /// tensor = the root's tensor.
  void broadcast(Tensor tensor, int root);

  /// Blocking, matched in order per pair of ranks. A send may wait for its recv, so ranks that both
  /// send and receive must agree on who starts. A rank can not send to itself.
  void send(const Tensor& tensor, int destination);
  void recv(Tensor tensor, int source);

  /// Returns when every rank has called it.
  void barrier();

  /// New groups, one for each `color`, with ranks ordered by `key` and, where keys are equal, by
  /// their rank here; any numbers will do. Collective.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// "self", "thread", "mpi", "mpi, staged", "nccl": for messages and the start-up summary.
  virtual std::string name() const = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

  /// Whether `part`, which has a size()-th of `whole`'s elements, is this rank's part in its place.
  bool is_own_part(const Tensor& part, const Tensor& whole) const;

 private:
  // Called with checked arguments on tensors that have elements and data, in groups of any size.
  virtual void do_all_reduce(Tensor tensor, ReduceOp op) = 0;
  virtual std::unique_ptr<PendingCollective> do_all_reduce_async(Tensor tensor, ReduceOp op) = 0;
  virtual void do_all_gather(const Tensor& input, Tensor output) = 0;
  virtual std::unique_ptr<PendingCollective> do_all_gather_async(const Tensor& input,
                                                                 Tensor output) = 0;
  virtual void do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op) = 0;
  virtual std::unique_ptr<PendingCollective> do_reduce_scatter_async(const Tensor& input,
                                                                     Tensor output,
                                                                     ReduceOp op) = 0;
  virtual void do_broadcast(Tensor tensor, int root) = 0;
  virtual void do_send(const Tensor& tensor, int destination) = 0;
  virtual void do_recv(Tensor tensor, int source) = 0;
  virtual void do_barrier() = 0;

  /// Whether this kind of communicator moves, or counts, tensors of that device.
  virtual bool takes(Device device) const { return device.is_cpu(); }

  bool ready(const Tensor& tensor, const char* op, const char* argument) const;
  bool ready_to_gather(const Tensor& input, const Tensor& output, const char* op) const;
  bool ready_to_scatter(const Tensor& input, const Tensor& output, const char* op) const;
  void check_peer(int peer, const char* op, const char* argument) const;

  int rank_;
  int size_;
};

/// The group of one rank.
[[nodiscard]] std::unique_ptr<Communicator> make_self_communicator();

}  // namespace tessera
