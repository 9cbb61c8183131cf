#include "tests/parallel/device_mirror.h"

#include <exception>
#include <utility>

#include "core/cuda/runtime.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

OwnedTensor on_device(const Tensor& host) {
  OwnedTensor owned(host.shape(), host.dtype(), kGpu);
  copy(host, owned.tensor);
  return owned;
}

class MirrorPending final : public PendingCollective {
 public:
  MirrorPending(Communicator& inner, Tensor host, ReduceOp op)
      : host_(host),
        device_(on_device(host)),
        running_(inner.all_reduce_async(device_.tensor, op)) {}
  MirrorPending(const MirrorPending&) = delete;
  MirrorPending& operator=(const MirrorPending&) = delete;
  ~MirrorPending() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (const std::exception&) {
      // The next collective on this rank says so.
    }
  }

  void wait() override {
    if (done_) return;
    running_->wait();
    copy(device_.tensor, host_);
    done_ = true;
  }
  bool progress() override {
    if (running_->progress()) wait();
    return done_;
  }

 private:
  Tensor host_;
  OwnedTensor device_;
  std::unique_ptr<PendingCollective> running_;
  bool done_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

class DeviceMirror final : public Communicator {
 public:
  explicit DeviceMirror(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<DeviceMirror>(inner_->split(color, key));
  }
  std::string name() const override { return inner_->name(); }

 private:
  void do_all_reduce(Tensor tensor, ReduceOp op) override {
    const OwnedTensor mine = on_device(tensor);
    inner_->all_reduce(mine.tensor, op);
    copy(mine.tensor, tensor);
  }
  std::unique_ptr<PendingCollective> do_all_reduce_async(Tensor tensor, ReduceOp op) override {
    return std::make_unique<MirrorPending>(*inner_, tensor, op);
  }
  void do_all_gather(const Tensor& input, Tensor output) override {
    const OwnedTensor in = on_device(input);
    const OwnedTensor out = on_device(output);
    inner_->all_gather(in.tensor, out.tensor);
    copy(out.tensor, output);
  }
  void do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op) override {
    const OwnedTensor in = on_device(input);
    const OwnedTensor out = on_device(output);
    inner_->reduce_scatter(in.tensor, out.tensor, op);
    copy(out.tensor, output);
    copy(in.tensor, input);
  }
  void do_broadcast(Tensor tensor, int root) override {
    const OwnedTensor mine = on_device(tensor);
    inner_->broadcast(mine.tensor, root);
    copy(mine.tensor, tensor);
  }
  void do_send(const Tensor& tensor, int destination) override {
    const OwnedTensor mine = on_device(tensor);
    inner_->send(mine.tensor, destination);
    cuda::synchronize();
  }
  void do_recv(Tensor tensor, int source) override {
    const OwnedTensor mine = on_device(tensor);
    inner_->recv(mine.tensor, source);
    copy(mine.tensor, tensor);
  }
  void do_barrier() override { inner_->barrier(); }

  std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> make_device_mirror(std::unique_ptr<Communicator> inner) {
  return std::make_unique<DeviceMirror>(std::move(inner));
}

}  // namespace tessera
