#include "parallel/communicators/nccl/nccl_communicator.h"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "core/cuda/graph.h"
#include "core/error.h"
#include "core/ops/cuda/embedding/order_keys.h"
#include "parallel/communicators/connect.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/nccl/nccl_environment.h"
#include "parallel/communicators/nccl/nccl_handle.h"
#include "parallel/communicators/nccl/nccl_stream.h"
#include "parallel/communicators/staged/staged_communicator.h"

namespace tessera {
namespace {

ncclDataType_t datatype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  fail("NCCL has no type for {}", to_string(dtype));
}

ncclRedOp_t reduction(ReduceOp op) { return op == ReduceOp::sum ? ncclSum : ncclMax; }

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
}

size_t count_of(const Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

/// NCCL drops NaN from floating-point maxima, so they are computed on integers of the same order
/// (core/ops/cuda/embedding/order_keys.h).
bool needs_keys(DType dtype, ReduceOp op) {
  return op == ReduceOp::max && (dtype == DType::f32 || dtype == DType::f64);
}

DType key_type(DType dtype) { return dtype == DType::f32 ? DType::i32 : DType::i64; }

/// A communicator of NCCL and the stream of its collectives.
struct Connection {
  explicit Connection(std::unique_ptr<NcclHandle> handle_) : handle(std::move(handle_)) {}

  NcclStream stream;
  std::unique_ptr<NcclHandle> handle;
};

/// Connects the ranks of `group`. All ranks of `all`, its parent or itself, start at the same time,
/// and all throw if any fails. Returns null, without using NCCL, if `alone`.
std::shared_ptr<Connection> connect(Communicator& group, Communicator& all, bool alone) {
  constexpr auto kLimit = std::chrono::minutes(5);
  std::string id;
  all_or_none(all, [&] {
    if (group.rank() == 0 && !alone) id = make_nccl_id();
  });
  id = broadcast_string(group, id, 0);
  std::unique_ptr<NcclHandle> handle;
  connect(all, "NCCL's connection of the ranks", kLimit, [&] {
    if (alone) return true;
    if (handle == nullptr) handle = std::make_unique<NcclHandle>(id, group);
    return handle->ready();
  });
  return alone ? nullptr : std::make_shared<Connection>(std::move(handle));
}

/// Whether `group`, a part of `all`, has the same ranks in the same order. The same on all ranks.
bool is_whole(const Communicator& group, Communicator& all) {
  int32_t differs = group.size() != all.size() || group.rank() != all.rank() ? 1 : 0;
  all.all_reduce(Tensor(&differs, {1}, DType::i32, kCpu), ReduceOp::max);
  return differs == 0;
}

/// A collective enqueued on the communicator's stream.
class NcclPending final : public PendingCollective {
 public:
  /// If `tensor` holds order keys, wait() converts them back to numbers.
  NcclPending(std::shared_ptr<Connection> connection, Tensor tensor, bool has_keys)
      : connection_(std::move(connection)), tensor_(tensor), has_keys_(has_keys) {
    after_.record(connection_->stream.get());
  }
  NcclPending(const NcclPending&) = delete;
  NcclPending& operator=(const NcclPending&) = delete;
  ~NcclPending() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (const std::exception&) {
      // The next call on this thread's GPU reports the error.
    }
  }

  void wait() override {
    if (waited_) return;
    waited_ = true;
    after_.hold(cuda::stream());
    if (has_keys_) cuda::from_order_keys(tensor_);
  }

  bool progress() override {
    if (waited_) return true;
    if (cuda::is_recording()) return waited_;  // events cannot be queried during capture
    connection_->handle->look();
    if (!after_.done()) return false;
    wait();
    return true;
  }

 private:
  std::shared_ptr<Connection> connection_;
  Tensor tensor_;
  bool has_keys_;
  NcclEvent after_;
  bool waited_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<Connection> connection,
                   std::shared_ptr<NcclEvent> last_launch)
      : Communicator(host->rank(), host->size()),
        host_(std::move(host)),
        staged_(make_staged_communicator(host_->split(0, host_->rank()))),
        connection_(std::move(connection)),
        last_launch_(std::move(last_launch)) {}

  ~NcclCommunicator() override {
    if (connection_ != nullptr) connection_->handle->wait_for(connection_->stream.get());
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> group = host_->split(color, key);
    std::shared_ptr<Connection> connection = connection_;
    if (!is_whole(*group, *host_)) connection = connect(*group, *host_, group->size() == 1);
    return std::make_unique<NcclCommunicator>(std::move(group), std::move(connection),
                                              last_launch_);
  }

  std::string name() const override { return "nccl"; }

  std::optional<std::string> capture_unsupported_reason() const override {
    if (last_launch_ == nullptr) return std::nullopt;
    return fmt::format(
        "NCCL {} does not order the collectives of tensor ranks within a graph and those of data "
        "ranks outside: this needs NCCL 2.26 or later, without NCCL_LAUNCH_ORDER_IMPLICIT=0",
        nccl_version());
  }

 private:
  bool takes(Device device) const override { return device.is_cpu() || device.is_cuda(); }

  /// The communicator for tensors that NCCL does not support; null if NCCL does.
  Communicator* instead(const Tensor& tensor) const {
    if (tensor.device().is_cpu()) return host_.get();
    return connection_ == nullptr ? staged_.get()
                                  : nullptr;  // which has nothing to do for one rank
  }

  /// Enqueues `call(comm, stream)` after the work on the ops' stream.
  template <typename Call>
  void enqueue(const char* operation, const Tensor& tensor, Call&& call) {
    NcclStream& stream = connection_->stream;
    stream.follow_ops();
    if (last_launch_ != nullptr) last_launch_->hold(stream.get());
    connection_->handle->enqueue(operation, tensor,
                                 [&](ncclComm_t comm) { return call(comm, stream.get()); });
    if (last_launch_ != nullptr) last_launch_->record(stream.get());
  }

  /// Like enqueue(), and makes later ops wait for it.
  template <typename Call>
  void run(const char* operation, const Tensor& tensor, Call&& call) {
    enqueue(operation, tensor, std::forward<Call>(call));
    after_.record(connection_->stream.get());
    after_.hold(cuda::stream());
  }

  // Blocking and pending collectives are the same here: wait() only makes the ops' stream wait, and
  // a CUDA graph can capture both.
  Pending pending(Tensor result, bool has_keys = false) {
    return std::make_unique<NcclPending>(connection_, result, has_keys);
  }

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    if (Communicator* other = instead(tensor)) return other->all_reduce_async(tensor, op, wait);
    if (op == ReduceOp::max && tensor.dtype() == DType::bf16) {
      return staged_->all_reduce_async(tensor, op, wait);
    }
    const bool keys = needs_keys(tensor.dtype(), op);
    if (keys) cuda::to_order_keys(tensor);
    const DType dtype = keys ? key_type(tensor.dtype()) : tensor.dtype();
    enqueue("all_reduce", tensor, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(tensor.raw(), tensor.raw(), count_of(tensor), datatype(dtype),
                           reduction(op), comm, stream);
    });
    return pending(tensor, keys);
  }

  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    if (Communicator* other = instead(input)) return other->all_gather_async(input, output, wait);
    enqueue("all_gather", input, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(input.raw(), output.raw(), count_of(input), datatype(input.dtype()),
                           comm, stream);
    });
    return pending(output);
  }

  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    Communicator* other = instead(input);
    if (other == nullptr && op == ReduceOp::max && is_float(input.dtype())) other = staged_.get();
    if (other != nullptr) return other->reduce_scatter_async(input, output, op, wait);
    enqueue("reduce_scatter", input, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(input.raw(), output.raw(), count_of(output),
                               datatype(output.dtype()), reduction(op), comm, stream);
    });
    return pending(output);
  }

  // A group starts all its operations together, in one kernel.
  Pending do_exchange(std::span<const Message> messages, Wait wait) override {
    const Tensor& first = messages[0].tensor;
    if (Communicator* other = instead(first)) return other->exchange_async(messages, wait);
    enqueue("exchange", first, [&](ncclComm_t comm, cudaStream_t stream) {
      ncclResult_t result = ncclGroupStart();
      for (const Message& message : messages) {
        if (result != ncclSuccess) break;
        const auto& [kind, tensor, peer] = message;
        const ncclDataType_t type = datatype(tensor.dtype());
        result = message.is_send()
                     ? ncclSend(tensor.raw(), count_of(tensor), type, peer, comm, stream)
                     : ncclRecv(tensor.raw(), count_of(tensor), type, peer, comm, stream);
      }
      const ncclResult_t ended = ncclGroupEnd();
      return result == ncclSuccess ? ended : result;
    });
    return pending(first);
  }

  void do_broadcast(Tensor tensor, int root) override {
    if (Communicator* other = instead(tensor)) return other->broadcast(tensor, root);
    run("broadcast", tensor, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(tensor.raw(), tensor.raw(), count_of(tensor), datatype(tensor.dtype()),
                           root, comm, stream);
    });
  }

  void do_barrier() override { host_->barrier(); }

  std::unique_ptr<Communicator> host_;
  std::unique_ptr<Communicator> staged_;  ///< for maxima that NCCL does not support
  NcclEvent after_;
  /// Null in a group of one of several ranks. Groups of the same ranks share one, because NCCL's
  /// buffers take hundreds of MiB of GPU memory per communicator.
  std::shared_ptr<Connection> connection_;
  /// The end of the last collective of any communicator of this rank, for which the next one waits;
  /// null if NCCL keeps the order of launches itself.
  std::shared_ptr<NcclEvent> last_launch_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host) {
  std::shared_ptr<Connection> connection = connect(*host, *host, /*alone=*/false);
  auto last_launch = nccl_keeps_launch_order() ? nullptr : std::make_shared<NcclEvent>();
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(connection),
                                            std::move(last_launch));
}

std::string nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  // The encoding of NCCL_VERSION since 2.9.
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace tessera
