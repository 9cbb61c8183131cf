#include "parallel/communicators/staged/staged_communicator.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/staged/staged_pending.h"
#include "parallel/communicators/staged/staging_pool.h"

namespace tessera {
namespace {

std::byte* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(element) * size_of(tensor.dtype());
}

/// Elements [begin, begin + count) of `tensor`, as a tensor.
Tensor part_of(const Tensor& tensor, int64_t begin, int64_t count) {
  return {at(tensor, begin), {count}, tensor.dtype(), tensor.device()};
}

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<StagingPool> pool,
                     size_t piece_bytes)
      : Communicator(host->rank(), host->size()),
        host_(std::move(host)),
        staging_(std::make_shared<StagedQueue>(std::move(pool))),
        piece_bytes_(piece_bytes) {}

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<StagedCommunicator>(host_->split(color, key), staging_->pool(),
                                                piece_bytes_);
  }

  std::string name() const override { return host_->name() + ", staged"; }

 private:
  bool takes(Device device) const override { return device.is_cpu() || device.is_cuda(); }

  /// Calls body(begin, count) for the pieces of [0, n); `ranks` pieces are staged at once.
  template <typename Body>
  void in_pieces(int64_t n, DType dtype, int ranks, Body&& body) const {
    const auto bytes = size_of(dtype) * static_cast<size_t>(ranks);
    const auto most = std::max<int64_t>(1, static_cast<int64_t>(piece_bytes_ / bytes));
    for (int64_t begin = 0; begin < n; begin += most) body(begin, std::min(most, n - begin));
  }

  /// A tensor of `count` elements in pinned memory, released with the lease.
  struct Staged {
    StagingPool::Lease block;
    Tensor tensor;
  };
  Staged stage(int64_t count, DType dtype) {
    StagingPool::Lease block = staging_->pool()->take(static_cast<size_t>(count) * size_of(dtype));
    const Tensor tensor = block->buffer.tensor({count}, dtype);
    return {std::move(block), tensor};
  }

  /// Enqueues the copy back, after which the block may be reused. (A copy to the host is complete
  /// when it returns.)
  static void copy_back(const Staged& staged, const Tensor& from, const Tensor& to) {
    copy(from, to);
    staged.block->copied.record();
  }

  /// A piece's collective, and the copies of its result out of `block`.
  struct Started {
    StagingPool::Lease block;
    Pending running;
    std::vector<StagedCopy> copies;
  };
  /// Starts the pieces of [0, n) with start(begin, count); `ranks` pieces are staged at once. If
  /// the caller waits at once, each piece is finished before the next.
  template <typename Start>
  Pending start_pieces(int64_t n, DType dtype, int ranks, Wait wait, Start&& start) {
    auto pending = std::make_unique<StagedPending>(staging_);
    in_pieces(n, dtype, ranks, [&](int64_t begin, int64_t count) {
      if (wait == Wait::later) staging_->make_room();
      Started started = start(begin, count);
      auto& [block, running, copies] = started;
      if (wait == Wait::at_once) {
        StagedPiece(std::move(block), std::move(running), std::move(copies)).finish();
      } else {
        pending->add(staging_->push(std::move(block), std::move(running), std::move(copies)));
      }
    });
    return pending;
  }

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    if (tensor.device().is_cpu()) return host_->all_reduce_async(tensor, op, wait);
    if (size() == 1) return std::make_unique<CompletedCollective>();
    return start_pieces(tensor.numel(), tensor.dtype(), 1, wait, [&](int64_t begin, int64_t count) {
      const Tensor piece = part_of(tensor, begin, count);
      Staged staged = stage(count, tensor.dtype());
      copy(piece, staged.tensor);
      Pending running = host_->all_reduce_async(staged.tensor, op, wait);
      return Started{std::move(staged.block), std::move(running), {{staged.tensor, piece}}};
    });
  }

  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    if (input.device().is_cpu()) return host_->all_gather_async(input, output, wait);
    if (size() == 1) return copied(input, output);
    const DType dtype = input.dtype();
    return start_pieces(input.numel(), dtype, size(), wait, [&](int64_t begin, int64_t count) {
      Staged all = stage(size() * count, dtype);
      const Tensor mine = part_of(all.tensor, rank() * count, count);
      copy(part_of(input, begin, count), mine);
      std::vector<StagedCopy> copies;
      for (int64_t rank = 0; rank < size(); ++rank) {
        copies.push_back({part_of(all.tensor, rank * count, count),
                          part_of(output, rank * input.numel() + begin, count)});
      }
      Pending running = host_->all_gather_async(mine, all.tensor, wait);
      return Started{std::move(all.block), std::move(running), std::move(copies)};
    });
  }

  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    if (input.device().is_cpu()) return host_->reduce_scatter_async(input, output, op, wait);
    if (size() == 1) return copied(input, output);
    const DType dtype = output.dtype();
    return start_pieces(output.numel(), dtype, size(), wait, [&](int64_t begin, int64_t count) {
      // MPI has no blocking reduce-scatter in place, so its result gets its own memory.
      const bool in_place = wait == Wait::later;
      Staged staged = stage((size() + (in_place ? 0 : 1)) * count, dtype);
      const Tensor all = part_of(staged.tensor, 0, size() * count);
      const Tensor mine = part_of(staged.tensor, (in_place ? rank() : size()) * count, count);
      for (int64_t rank = 0; rank < size(); ++rank) {
        copy(part_of(input, rank * output.numel() + begin, count),
             part_of(all, rank * count, count));
      }
      Pending running = host_->reduce_scatter_async(all, mine, op, wait);
      return Started{
          std::move(staged.block), std::move(running), {{mine, part_of(output, begin, count)}}};
    });
  }

  static Pending copied(const Tensor& input, const Tensor& output) {
    copy(input, output.view(input.shape()));
    return std::make_unique<CompletedCollective>();
  }

  // All pieces of all messages are staged and start, because none may wait for another one.
  Pending do_exchange(std::span<const Message> messages, Wait wait) override {
    if (messages[0].tensor.device().is_cpu()) return host_->exchange_async(messages, wait);
    auto pending = std::make_unique<StagedPending>(staging_);
    for (const auto kind : {Message::Kind::recv, Message::Kind::send}) {
      for (const Message& message : messages) {
        if (message.kind == kind) start_message(message, *pending);
      }
    }
    return pending;
  }

  void start_message(const Message& message, StagedPending& pending) {
    const Tensor& tensor = message.tensor;
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      const Tensor piece = part_of(tensor, begin, count);
      Staged staged = stage(count, tensor.dtype());
      if (message.is_send()) copy(piece, staged.tensor);
      const Message one{message.kind, staged.tensor, message.peer};
      Pending running = host_->exchange_async({&one, 1});
      std::vector<StagedCopy> copies;
      if (!message.is_send()) copies.push_back({staged.tensor, piece});
      pending.add(std::make_shared<StagedPiece>(std::move(staged.block), std::move(running),
                                                std::move(copies)));
    });
  }

  void do_broadcast(Tensor tensor, int root) override {
    if (tensor.device().is_cpu()) return host_->broadcast(tensor, root);
    if (size() == 1) return;
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      const Tensor piece = part_of(tensor, begin, count);
      const Staged staged = stage(count, tensor.dtype());
      if (rank() == root) copy(piece, staged.tensor);
      host_->broadcast(staged.tensor, root);
      if (rank() != root) copy_back(staged, staged.tensor, piece);
    });
  }

  void do_barrier() override { host_->barrier(); }

  std::unique_ptr<Communicator> host_;
  std::shared_ptr<StagedQueue> staging_;
  size_t piece_bytes_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       size_t piece_bytes) {
  require(piece_bytes > 0, "a staged communicator needs pieces of at least a byte");
  return std::make_unique<StagedCommunicator>(std::move(host), std::make_shared<StagingPool>(),
                                              piece_bytes);
}

}  // namespace tessera
