#include "parallel/communicators/host/host_communicator.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "parallel/communicators/host/peer_memory.h"
#include "parallel/communicators/host/spare_buffers.h"

namespace tessera {
namespace {

/// Memory that other processes can copy from and to: the tensor's own, or a copy if a driver has
/// mapped the tensor's memory.
class ReachableMemory {
 public:
  ReachableMemory(const Tensor& tensor, SpareBuffers& spare) : tensor_(tensor), spare_(spare) {
    if (peers_can_reach(tensor.raw(), tensor.bytes())) return;
    copy_ = spare_.take(tensor.bytes());
    std::memcpy(copy_.data(), tensor.raw(), tensor.bytes());
  }
  ~ReachableMemory() {
    if (is_copy()) spare_.give_back(std::move(copy_));
  }
  ReachableMemory(const ReachableMemory&) = delete;
  ReachableMemory& operator=(const ReachableMemory&) = delete;

  std::byte* data() const {
    return static_cast<std::byte*>(is_copy() ? copy_.data() : tensor_.raw());
  }

  /// Copies what was written to data() back to the tensor.
  void bring_back() const {
    if (is_copy()) std::memcpy(tensor_.raw(), copy_.data(), tensor_.bytes());
  }

 private:
  bool is_copy() const { return copy_.bytes() > 0; }

  Tensor tensor_;
  SpareBuffers& spare_;
  Buffer copy_;
};

/// The memory of a collective on `whole`. This rank's part is `part`, or, in place, at
/// `part_in_place`; collectives without parts use all of `whole`.
class CallMemory {
 public:
  CallMemory(CollectiveCall& call, const Tensor& whole, const Tensor& part,
             std::byte* part_in_place, SpareBuffers& spare)
      : whole_(whole, spare), writes_whole_(call.collective != Collective::reduce_scatter) {
    if (part_in_place != part.raw()) part_.emplace(part, spare);
    const std::ptrdiff_t offset = part_in_place - static_cast<std::byte*>(whole.raw());
    std::byte* const own = part_ ? part_->data() : whole_.data() + offset;
    const Tensor whole_there(whole_.data(), whole.shape(), whole.dtype(), kCpu);
    const Tensor part_there(own, part.shape(), part.dtype(), kCpu);
    call.input = writes_whole_ ? part_there : whole_there;
    call.output = writes_whole_ ? whole_there : part_there;
  }

  void bring_back() const {
    if (writes_whole_ || !part_) whole_.bring_back();
    if (!writes_whole_ && part_) part_->bring_back();
  }

 private:
  ReachableMemory whole_;
  std::optional<ReachableMemory> part_;
  bool writes_whole_;
};

/// The memory of what an exchange sends to ranks of this host, which read it.
class SentMemory {
 public:
  SentMemory(std::vector<Communicator::Message>& messages, const HostGroup& group,
             SpareBuffers& spare) {
    for (Communicator::Message& message : messages) {
      if (!message.is_send() || !group.is_here(message.peer)) continue;
      const Tensor& sent = message.tensor;
      message.tensor = {sent_.emplace_back(sent, spare).data(), sent.shape(), sent.dtype(), kCpu};
    }
  }
  void bring_back() const {}

 private:
  std::deque<ReachableMemory> sent_;
};

/// A call of `group`: the number of a collective, or an exchange.
template <typename Memory, typename Call>
class HostPending final : public PendingCollective {
 public:
  HostPending(HostGroup& group, std::unique_ptr<Memory> memory, Call call)
      : group_(group), memory_(std::move(memory)), call_(std::move(call)) {}

  // While an exception propagates, wait for a short time only: the other ranks may be waiting for
  // this one, and a longer wait would hold back the exception that ends them.
  ~HostPending() override {
    try {
      if (std::uncaught_exceptions() == exceptions_) {
        wait();
        return;
      }
      constexpr auto kGrace = std::chrono::seconds(2);
      const auto deadline = std::chrono::steady_clock::now() + kGrace;
      while (!progress() && std::chrono::steady_clock::now() < deadline) {
        group_.make_progress();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!over_) group_.abort();  // the call's memory is about to be freed
    } catch (const std::exception&) {
      // The group has failed; every later call reports it.
    }
  }

  void wait() override {
    if (over_) return;
    group_.wait(call_);
    end();
  }

  bool progress() override {
    if (!over_ && group_.done(call_)) end();
    return over_;
  }

  HostPending(const HostPending&) = delete;
  HostPending& operator=(const HostPending&) = delete;

 private:
  void end() {
    memory_->bring_back();
    over_ = true;
  }

  HostGroup& group_;
  std::unique_ptr<Memory> memory_;
  Call call_;
  bool over_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::unique_ptr<RankGroup> ranks, std::unique_ptr<HostGroup> group,
                   HostResources resources)
      : Communicator(group->rank(), group->size()),
        ranks_(std::move(ranks)),
        resources_(std::move(resources)),
        group_(std::move(group)) {}

  // Unregister first: the thread must not touch a destroyed group.
  ~HostCommunicator() override { resources_.thread->remove(*group_); }

  // Splitting may block in a library that pending collectives need, too: the barrier lets those
  // that all ranks have started before end first.
  std::unique_ptr<Communicator> split(int color, int key) override {
    do_barrier();
    return ranks_->split(color, key);
  }

  std::string name() const override { return ranks_->name(); }

 private:
  Pending on_whole(const CollectiveCall& call, const Tensor& tensor) {
    return on_parts(call, tensor, tensor, static_cast<std::byte*>(tensor.raw()));
  }
  Pending on_parts(const CollectiveCall& call, const Tensor& whole, const Tensor& part) {
    return on_parts(
        call, whole, part,
        static_cast<std::byte*>(whole.raw()) + static_cast<size_t>(rank()) * part.bytes());
  }
  Pending on_parts(CollectiveCall call, const Tensor& whole, const Tensor& part,
                   std::byte* in_place) {
    auto memory = std::make_unique<CallMemory>(call, whole, part, in_place, spare_);
    return pending(std::move(memory), group_->start(call), call.wait);
  }
  template <typename Memory, typename Call>
  Pending pending(std::unique_ptr<Memory> memory, Call call, Wait wait) {
    // A thread that waits at once does the work itself.
    if (wait == Wait::later) resources_.thread->watch(*group_);
    return std::make_unique<HostPending<Memory, Call>>(*group_, std::move(memory), std::move(call));
  }

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    return on_whole({.collective = Collective::all_reduce, .op = op, .wait = wait}, tensor);
  }
  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    return on_parts({.collective = Collective::all_gather, .wait = wait}, output, input);
  }
  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    return on_parts({.collective = Collective::reduce_scatter, .op = op, .wait = wait}, input,
                    output);
  }
  Pending do_exchange(std::span<const Message> messages, Wait wait) override {
    std::vector<Message> reachable(messages.begin(), messages.end());
    auto memory = std::make_unique<SentMemory>(reachable, *group_, spare_);
    return pending(std::move(memory), group_->start_exchange(reachable), wait);
  }
  void do_broadcast(Tensor tensor, int root) override {
    on_whole({.collective = Collective::broadcast, .root = root}, tensor)->wait();
  }
  void do_barrier() override { group_->wait(group_->start({})); }

  std::unique_ptr<RankGroup> ranks_;
  HostResources resources_;
  std::unique_ptr<HostGroup> group_;
  SpareBuffers spare_;
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<RankGroup> ranks,
                                                     std::unique_ptr<HostGroup> group,
                                                     HostResources resources) {
  return std::make_unique<HostCommunicator>(std::move(ranks), std::move(group),
                                            std::move(resources));
}

}  // namespace tessera
