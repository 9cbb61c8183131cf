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

  void do_all_reduce(Tensor tensor, ReduceOp op) override {
    if (tensor.device().is_cpu()) return host_->all_reduce(tensor, op);
    if (size() == 1) return;
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      const Tensor piece = part_of(tensor, begin, count);
      const Staged staged = stage(count, tensor.dtype());
      copy(piece, staged.tensor);
      host_->all_reduce(staged.tensor, op);
      copy_back(staged, staged.tensor, piece);
    });
  }

  std::unique_ptr<PendingCollective> do_all_reduce_async(Tensor tensor, ReduceOp op) override {
    if (tensor.device().is_cpu()) return host_->all_reduce_async(tensor, op);
    if (size() == 1) return std::make_unique<CompletedCollective>();
    auto pending = std::make_unique<StagedPending>(staging_);
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      staging_->make_room();
      const Tensor piece = part_of(tensor, begin, count);
      Staged staged = stage(count, tensor.dtype());
      copy(piece, staged.tensor);
      auto running = host_->all_reduce_async(staged.tensor, op);
      pending->add(
          staging_->push(std::move(staged.block), std::move(running), {{staged.tensor, piece}}));
    });
    return pending;
  }

  void do_all_gather(const Tensor& input, Tensor output) override {
    if (input.device().is_cpu()) return host_->all_gather(input, output);
    if (size() == 1) return copy(input, output.view(input.shape()));
    in_pieces(input.numel(), input.dtype(), size(), [&](int64_t begin, int64_t count) {
      const Staged mine = stage(count, input.dtype());
      copy(part_of(input, begin, count), mine.tensor);
      const Staged all = stage(size() * count, input.dtype());
      host_->all_gather(mine.tensor, all.tensor);
      for (int64_t rank = 0; rank < size(); ++rank) {
        copy_back(all, part_of(all.tensor, rank * count, count),
                  part_of(output, rank * input.numel() + begin, count));
      }
    });
  }

  std::unique_ptr<PendingCollective> do_all_gather_async(const Tensor& input,
                                                         Tensor output) override {
    if (input.device().is_cpu()) return host_->all_gather_async(input, output);
    if (size() == 1) {
      copy(input, output.view(input.shape()));
      return std::make_unique<CompletedCollective>();
    }
    auto pending = std::make_unique<StagedPending>(staging_);
    in_pieces(input.numel(), input.dtype(), size(), [&](int64_t begin, int64_t count) {
      staging_->make_room();
      Staged all = stage(size() * count, input.dtype());
      const Tensor mine = part_of(all.tensor, rank() * count, count);
      copy(part_of(input, begin, count), mine);
      std::vector<StagedCopy> copies;
      for (int64_t rank = 0; rank < size(); ++rank) {
        copies.push_back({part_of(all.tensor, rank * count, count),
                          part_of(output, rank * input.numel() + begin, count)});
      }
      auto running = host_->all_gather_async(mine, all.tensor);
      pending->add(staging_->push(std::move(all.block), std::move(running), std::move(copies)));
    });
    return pending;
  }

  std::unique_ptr<PendingCollective> do_reduce_scatter_async(const Tensor& input, Tensor output,
                                                             ReduceOp op) override {
    if (input.device().is_cpu()) return host_->reduce_scatter_async(input, output, op);
    if (size() == 1) {
      copy(input, output.view(input.shape()));
      return std::make_unique<CompletedCollective>();
    }
    auto pending = std::make_unique<StagedPending>(staging_);
    in_pieces(output.numel(), output.dtype(), size(), [&](int64_t begin, int64_t count) {
      staging_->make_room();
      Staged all = stage(size() * count, output.dtype());
      for (int64_t rank = 0; rank < size(); ++rank) {
        copy(part_of(input, rank * output.numel() + begin, count),
             part_of(all.tensor, rank * count, count));
      }
      const Tensor mine = part_of(all.tensor, rank() * count, count);
      auto running = host_->reduce_scatter_async(all.tensor, mine, op);
      pending->add(staging_->push(std::move(all.block), std::move(running),
                                  {{mine, part_of(output, begin, count)}}));
    });
    return pending;
  }

  void do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op) override {
    if (input.device().is_cpu()) return host_->reduce_scatter(input, output, op);
    if (size() == 1) return copy(input, output.view(input.shape()));
    in_pieces(output.numel(), output.dtype(), size(), [&](int64_t begin, int64_t count) {
      const Staged all = stage(size() * count, output.dtype());
      for (int64_t rank = 0; rank < size(); ++rank) {
        copy(part_of(input, rank * output.numel() + begin, count),
             part_of(all.tensor, rank * count, count));
      }
      const Staged mine = stage(count, output.dtype());
      host_->reduce_scatter(all.tensor, mine.tensor, op);
      copy_back(mine, mine.tensor, part_of(output, begin, count));
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

  void do_send(const Tensor& tensor, int destination) override {
    if (tensor.device().is_cpu()) return host_->send(tensor, destination);
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      const Staged staged = stage(count, tensor.dtype());
      copy(part_of(tensor, begin, count), staged.tensor);
      host_->send(staged.tensor, destination);
    });
  }

  void do_recv(Tensor tensor, int source) override {
    if (tensor.device().is_cpu()) return host_->recv(tensor, source);
    in_pieces(tensor.numel(), tensor.dtype(), 1, [&](int64_t begin, int64_t count) {
      const Staged staged = stage(count, tensor.dtype());
      host_->recv(staged.tensor, source);
      copy_back(staged, staged.tensor, part_of(tensor, begin, count));
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
