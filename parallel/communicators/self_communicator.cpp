#include <cstring>

#include "parallel/communicators/communicator.h"

namespace tessera {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() : Communicator(0, 1) {}

  std::unique_ptr<Communicator> split(int /*color*/, int /*key*/) override {
    return make_self_communicator();
  }
  std::string name() const override { return "self"; }

 private:
  void do_all_reduce(Tensor /*tensor*/, ReduceOp /*op*/) override {}
  std::unique_ptr<PendingCollective> do_all_reduce_async(Tensor /*tensor*/,
                                                         ReduceOp /*op*/) override {
    return std::make_unique<CompletedCollective>();
  }
  void do_all_gather(const Tensor& input, Tensor output) override {
    std::memcpy(output.raw(), input.raw(), input.bytes());
  }
  std::unique_ptr<PendingCollective> do_all_gather_async(const Tensor& input,
                                                         Tensor output) override {
    do_all_gather(input, output);
    return std::make_unique<CompletedCollective>();
  }
  void do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp /*op*/) override {
    std::memcpy(output.raw(), input.raw(), input.bytes());
  }
  std::unique_ptr<PendingCollective> do_reduce_scatter_async(const Tensor& input, Tensor output,
                                                             ReduceOp op) override {
    do_reduce_scatter(input, output, op);
    return std::make_unique<CompletedCollective>();
  }
  void do_broadcast(Tensor /*tensor*/, int /*root*/) override {}
  void do_barrier() override {}

  // The base class refuses a rank that names itself as peer, so these are never called in a group
  // of one.
  void do_send(const Tensor& /*tensor*/, int /*destination*/) override {}
  void do_recv(Tensor /*tensor*/, int /*source*/) override {}
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace tessera
