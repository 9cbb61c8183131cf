#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace tessera {

class FlightRecorder;

/// The max of values that include a NaN is NaN. Integer sums wrap around.
enum class ReduceOp : uint8_t { sum, max };

constexpr std::string_view to_string(ReduceOp op) { return op == ReduceOp::sum ? "sum" : "max"; }

/// When the caller of a collective waits for it, the same on all ranks. One that is waited for at
/// once may be complete when it has started, and nothing needs to advance it before wait().
enum class Wait : uint8_t { at_once, later };

/// A started collective that may still be running. The destructor waits for it.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  /// Waits until the result is in place. May be called more than once.
  virtual void wait() = 0;
  /// Advances the transfer without blocking. Returns true when the result is in place.
  virtual bool progress() = 0;
};

/// A collective that is already complete.
class CompletedCollective final : public PendingCollective {
 public:
  void wait() override {}
  bool progress() override { return true; }
};

/// Name of a group in the flight recorder, and its ranks in the world: rank i of
/// the group is `first` + i × `stride`. A stride of 0 says that this is not known.
struct GroupLabel {
  std::string_view name = "ranks";  ///< outlives the communicator: a literal
  int first = 0;
  int stride = 0;
};

/// A group of ranks that call the same collectives in the same order. Collectives accept contiguous
/// tensors of any dtype and shape, never byte counts; all ranks pass the same shape and dtype.
/// Callers need no special case for a group of one. On meta tensors a collective checks its
/// arguments and returns.
///
/// Sums run in the tensor's dtype and have the same bits on every rank of the group.
///
/// GPU tensors must be on the calling thread's device. A collective sees the work enqueued on that
/// thread's stream before the call. Work enqueued after the call (or, for a pending collective,
/// after its wait()) sees the result. The host waits only where it must.
///
/// If a rank fails, every other rank's pending or next call throws, or the process ends: no call
/// waits forever.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Names the group in the flight recorder (core/trace/flight_recorder.h), which records the calls
  /// of each thread that has one. All ranks of a group give it the same label.
  void set_label(const GroupLabel& label) { label_ = label; }
  const GroupLabel& label() const { return label_; }

  /// tensor = op over all ranks' tensors, elementwise and in place.
  void all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum);

  /// Like all_reduce, but returns immediately; do not touch `tensor` before wait() on the result.
  /// All ranks of a group must start its pending collectives in the same order. `wait` is for
  /// communicators built on another one: they pass on whether their caller waits at once.
  [[nodiscard]] std::unique_ptr<PendingCollective> all_reduce_async(Tensor tensor,
                                                                    ReduceOp op = ReduceOp::sum,
                                                                    Wait wait = Wait::later);

  /// output = all ranks' inputs, concatenated in rank order; output has size() times input's
  /// elements. `input` may be this rank's part of `output`, in place; otherwise the two must not
  /// overlap.
  void all_gather(const Tensor& input, Tensor output);

  /// output = this rank's part of the elementwise op over all ranks' inputs; input has size() times
  /// output's elements. `output` may be this rank's part of `input`, in place, and the other parts
  /// of `input` are then undefined afterwards; otherwise the two must not overlap.
  void reduce_scatter(const Tensor& input, Tensor output, ReduceOp op = ReduceOp::sum);

  /// Like all_gather and reduce_scatter, but these return immediately, as all_reduce_async does: do
  /// not touch either tensor before wait() on the result.
  [[nodiscard]] std::unique_ptr<PendingCollective> all_gather_async(const Tensor& input,
                                                                    Tensor output,
                                                                    Wait wait = Wait::later);
  [[nodiscard]] std::unique_ptr<PendingCollective> reduce_scatter_async(const Tensor& input,
                                                                        Tensor output,
                                                                        ReduceOp op = ReduceOp::sum,
                                                                        Wait wait = Wait::later);

  /// tensor = the root's tensor.
  void broadcast(Tensor tensor, int root);

  /// A message of an exchange: to or from rank `peer` of the group, which may be this rank.
  struct Message {
    enum class Kind : uint8_t { send, recv };
    Kind kind = Kind::send;
    Tensor tensor = {};
    int peer = 0;

    static Message send(const Tensor& tensor, int to) { return {Kind::send, tensor, to}; }
    static Message recv(Tensor tensor, int from) { return {Kind::recv, tensor, from}; }
    bool is_send() const { return kind == Kind::send; }
  };

  /// Sends and receives messages, which all start together: none waits for another one of the call.
  /// Only ranks that are named take part. Messages from one rank to another are matched in order,
  /// across calls, and both ranks pass the same dtype and number of elements; otherwise both throw,
  /// except on NCCL, which does not compare them. A message without elements is not sent. Messages
  /// of a rank to itself are copied, and the call has both ends of each. The tensors are on one
  /// device, and none that receives overlaps another one.
  void exchange(std::span<const Message> messages);

  /// Like exchange(), but returns immediately; do not touch the tensors before wait() on the
  /// result. Each rank starts its calls of a group, exchanges and collectives, in an order that
  /// would not deadlock if every call were blocking: on NCCL, a rank's calls run one by one.
  [[nodiscard]] std::unique_ptr<PendingCollective> exchange_async(std::span<const Message> messages,
                                                                  Wait wait = Wait::later);

  /// Rank r gets the next send_rows[r] rows of `input` (along its first dimension) from every rank
  /// and writes the recv_rows[s] rows from rank s to `output`, in the order of ranks. All rows have
  /// one dtype and number of elements. Rows may be 0, and the counts of a tensor sum to its rows.
  /// The tensors must not overlap. A collective that is an exchange, so the counts of two ranks are
  /// compared as there.
  void all_to_all(const Tensor& input, std::span<const int64_t> send_rows, Tensor output,
                  std::span<const int64_t> recv_rows);
  [[nodiscard]] std::unique_ptr<PendingCollective> all_to_all_async(
      const Tensor& input, std::span<const int64_t> send_rows, Tensor output,
      std::span<const int64_t> recv_rows, Wait wait = Wait::later);

  /// Waits until every rank has called it.
  void barrier();

  /// Creates one group per `color`, with ranks ordered by `key`, then by rank in this group. Any
  /// integers are valid. Collective.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// "self", "thread", "mpi", "mpi, staged" or "nccl", for messages and the start-up summary.
  virtual std::string name() const = 0;

  /// Why a CUDA graph cannot contain collectives of several ranks, as words that follow "because";
  /// nullopt if it can.
  virtual std::optional<std::string> capture_unsupported_reason() const {
    return "ranks exchange through their hosts, which a graph cannot contain";
  }

 protected:
  using Pending = std::unique_ptr<PendingCollective>;

  Communicator(int rank, int size) : rank_(rank), size_(size) {}

  /// Whether `part`, which has 1 / size() of `whole`'s elements, is this rank's part of `whole` in
  /// memory.
  bool is_own_part(const Tensor& part, const Tensor& whole) const;

 private:
  // Called with checked arguments on tensors with elements and data, in groups of any size. The
  // first four start a collective. `wait` lets an implementation skip what only a pending one
  // needs, such as a progress thread, or call a library's blocking operation.
  virtual Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) = 0;
  virtual Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) = 0;
  virtual Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) = 0;
  // At least one message, each with another rank.
  virtual Pending do_exchange(std::span<const Message> messages, Wait wait) = 0;
  virtual void do_broadcast(Tensor tensor, int root) = 0;
  virtual void do_barrier() = 0;

  /// Whether this kind of communicator supports tensors on `device`.
  virtual bool takes(Device device) const { return device.is_cpu(); }

  bool ready(const Tensor& tensor, const char* op, const char* argument) const;
  bool ready_to_gather(const Tensor& input, const Tensor& output, const char* op) const;
  bool ready_to_scatter(const Tensor& input, const Tensor& output, const char* op) const;
  void check_peer(int peer, const char* op, const char* argument) const;
  /// The messages with other ranks; copies those of this rank to itself. Throws if they are wrong.
  std::vector<Message> ready_to_exchange(std::span<const Message> messages, const char* op) const;
  /// The messages of an all_to_all.
  std::vector<Message> messages_of(const Tensor& input, std::span<const int64_t> send_rows,
                                   const Tensor& output, std::span<const int64_t> recv_rows) const;

  /// The group's number in the calling thread's flight recorder.
  int recorded_group(FlightRecorder& recorder) const;

  int rank_;
  int size_;
  GroupLabel label_;
  mutable uint64_t recorder_ = 0;  // that `recorded_group_` belongs to
  mutable int recorded_group_ = 0;

  friend class RecordedCall;
};

/// The bytes that messages send or those that they receive, whichever are more: a link carries both
/// at once.
int64_t bytes_of(std::span<const Communicator::Message> messages);

/// The group of one rank.
[[nodiscard]] std::unique_ptr<Communicator> make_self_communicator();

}  // namespace tessera
