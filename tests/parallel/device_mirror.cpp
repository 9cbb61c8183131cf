#include "tests/parallel/device_mirror.h"

#include <exception>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

OwnedTensor on_device(const Tensor& host, Device gpu) {
  OwnedTensor owned(host.shape(), host.dtype(), gpu);
  copy(host, owned.tensor);
  return owned;
}

/// Part and whole of a gather or scatter on the device, in place if the host tensors are.
struct MirrorPair {
  OwnedTensor whole, apart;
  Tensor part;

  MirrorPair(const Tensor& host_part, const Tensor& host_whole, int rank, Device gpu)
      : whole(on_device(host_whole, gpu)) {
    const int64_t first = rank * host_part.numel();
    const Tensor own =
        whole.tensor.view({host_whole.numel()}).slice(first, first + host_part.numel());
    const auto* place = static_cast<const std::byte*>(host_whole.raw()) + rank * host_part.bytes();
    if (host_part.raw() != place) apart = on_device(host_part, gpu);
    part = host_part.raw() == place ? own : apart.tensor;
  }
};

/// A result on the device and the host tensor that it is copied to.
struct MirrorCopy {
  Tensor from, to;
};

class MirrorPending final : public PendingCollective {
 public:
  /// Makes `copies` from the device, whose tensors `memory` keeps alive, when `running` is
  /// complete.
  MirrorPending(std::shared_ptr<void> memory, std::unique_ptr<PendingCollective> running,
                std::vector<MirrorCopy> copies)
      : memory_(std::move(memory)), copies_(std::move(copies)), running_(std::move(running)) {}
  MirrorPending(const MirrorPending&) = delete;
  MirrorPending& operator=(const MirrorPending&) = delete;
  ~MirrorPending() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (const std::exception&) {
      // The next collective on this rank reports the error.
    }
  }

  void wait() override {
    if (done_) return;
    running_->wait();
    for (const MirrorCopy& one : copies_) copy(one.from, one.to);
    done_ = true;
  }
  bool progress() override {
    if (running_->progress()) wait();
    return done_;
  }

 private:
  std::shared_ptr<void> memory_;
  std::vector<MirrorCopy> copies_;
  std::unique_ptr<PendingCollective> running_;
  bool done_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

class DeviceMirror final : public Communicator {
 public:
  DeviceMirror(std::unique_ptr<Communicator> inner, Device gpu)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)), gpu_(gpu) {}

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<DeviceMirror>(inner_->split(color, key), gpu_);
  }
  std::string name() const override { return inner_->name(); }

 private:
  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    const auto mine = std::make_shared<OwnedTensor>(on_device(tensor, gpu_));
    auto running = inner_->all_reduce_async(mine->tensor, op, wait);
    return std::make_unique<MirrorPending>(mine, std::move(running),
                                           std::vector<MirrorCopy>{{mine->tensor, tensor}});
  }
  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    const auto pair = std::make_shared<MirrorPair>(input, output, rank(), gpu_);
    auto running = inner_->all_gather_async(pair->part, pair->whole.tensor, wait);
    return std::make_unique<MirrorPending>(pair, std::move(running),
                                           std::vector<MirrorCopy>{{pair->whole.tensor, output}});
  }
  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    const auto pair = std::make_shared<MirrorPair>(output, input, rank(), gpu_);
    auto running = inner_->reduce_scatter_async(pair->whole.tensor, pair->part, op, wait);
    return std::make_unique<MirrorPending>(pair, std::move(running),
                                           std::vector<MirrorCopy>{{pair->part, output}});
  }
  Pending do_exchange(std::span<const Message> messages, Wait wait) override {
    const auto memory = std::make_shared<std::vector<OwnedTensor>>();
    std::vector<Message> mine;
    std::vector<MirrorCopy> copies;
    for (const Message& message : messages) {
      const Tensor tensor = memory->emplace_back(on_device(message.tensor, gpu_)).tensor;
      mine.push_back({message.kind, tensor, message.peer});
      if (!message.is_send()) copies.push_back({tensor, message.tensor});
    }
    auto running = inner_->exchange_async(mine, wait);
    return std::make_unique<MirrorPending>(memory, std::move(running), std::move(copies));
  }
  void do_broadcast(Tensor tensor, int root) override {
    const OwnedTensor mine = on_device(tensor, gpu_);
    inner_->broadcast(mine.tensor, root);
    copy(mine.tensor, tensor);
  }
  void do_barrier() override { inner_->barrier(); }

  std::unique_ptr<Communicator> inner_;
  Device gpu_;
};

}  // namespace

std::unique_ptr<Communicator> make_device_mirror(std::unique_ptr<Communicator> inner, Device gpu) {
  return std::make_unique<DeviceMirror>(std::move(inner), gpu);
}

}  // namespace tessera
