#include "parallel/communicators/thread/thread_communicator.h"

#include <omp.h>

#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "core/error.h"
#include "parallel/communicators/thread/thread_group.h"

namespace tessera {
namespace {

class ThreadPending final : public PendingCollective {
 public:
  ThreadPending(std::shared_ptr<ThreadGroup> group, std::shared_ptr<ThreadCollective> collective,
                int rank)
      : group_(std::move(group)), collective_(std::move(collective)), rank_(rank) {}

  ThreadPending(const ThreadPending&) = delete;
  ThreadPending& operator=(const ThreadPending&) = delete;

  ~ThreadPending() override {
    if (collective_ == nullptr) return;
    try {
      // Do not wait while an exception propagates: other ranks may be waiting for this one.
      if (std::uncaught_exceptions() > exceptions_) {
        group_->abandon(*collective_, rank_);
      } else {
        group_->wait(*collective_);
      }
    } catch (const std::exception&) {
      // The collective has failed; the next one on this rank reports it.
    }
  }

  void wait() override {
    if (collective_ == nullptr) return;
    group_->wait(*collective_);
    collective_ = nullptr;
  }

  bool progress() override {
    if (collective_ != nullptr && group_->progress(*collective_)) collective_ = nullptr;
    return collective_ == nullptr;
  }

 private:
  std::shared_ptr<ThreadGroup> group_;
  std::shared_ptr<ThreadCollective> collective_;  ///< null when the result is in place
  int rank_;
  int exceptions_ = std::uncaught_exceptions();
};

class PendingMessages final : public PendingCollective {
 public:
  void add(std::unique_ptr<PendingCollective> message) { messages_.push_back(std::move(message)); }

  void wait() override {
    for (const auto& message : messages_) message->wait();
  }
  bool progress() override {
    bool all = true;
    for (const auto& message : messages_) all = message->progress() && all;
    return all;
  }

 private:
  std::vector<std::unique_ptr<PendingCollective>> messages_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : Communicator(rank, group->size()), group_(std::move(group)) {}

  std::unique_ptr<Communicator> split(int color, int key) override {
    const auto collective = run({.collective = Collective::split, .color = color, .key = key});
    const auto& place = collective->places[static_cast<size_t>(rank())];
    return std::make_unique<ThreadCommunicator>(place.group, place.rank);
  }

  std::string name() const override { return "thread"; }

 private:
  std::shared_ptr<ThreadCollective> run(const CollectiveCall& call) {
    auto collective = group_->post(rank(), call);
    group_->wait(*collective);
    return collective;
  }

  Pending start(const CollectiveCall& call) {
    return std::make_unique<ThreadPending>(group_, group_->post(rank(), call), rank());
  }

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    return start({.collective = Collective::all_reduce,
                  .input = tensor,
                  .output = tensor,
                  .op = op,
                  .wait = wait});
  }

  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    return start(
        {.collective = Collective::all_gather, .input = input, .output = output, .wait = wait});
  }

  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    return start({.collective = Collective::reduce_scatter,
                  .input = input,
                  .output = output,
                  .op = op,
                  .wait = wait});
  }

  Pending do_exchange(std::span<const Message> messages, Wait /*wait*/) override {
    auto pending = std::make_unique<PendingMessages>();
    for (const auto& [kind, tensor, peer] : messages) {
      const bool sends = kind == Message::Kind::send;
      const int sender = sends ? rank() : peer, receiver = sends ? peer : rank();
      const auto pair = group_->pair(sender, receiver);
      const int in_pair = sends ? 0 : 1;
      const auto posted = pair->post(in_pair, {.collective = Collective::exchange,
                                               .input = tensor,
                                               .output = tensor,
                                               .wait = Wait::later,
                                               .root = sender,
                                               .key = receiver});
      pending->add(std::make_unique<ThreadPending>(pair, posted, in_pair));
    }
    return pending;
  }

  void do_broadcast(Tensor tensor, int root) override {
    run({.collective = Collective::broadcast, .input = tensor, .output = tensor, .root = root});
  }

  void do_barrier() override { run({.collective = Collective::barrier}); }

  std::shared_ptr<ThreadGroup> group_;
};

}  // namespace

void run_thread_ranks(int size, const std::function<void(Communicator& world)>& body) {
  require(size >= 1, "run_thread_ranks: size is {}, but at least one rank is needed", size);
  const auto world = std::make_shared<ThreadWorld>(size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = std::make_shared<ThreadGroup>(world, std::move(ranks));

  const auto run_rank = [&](int rank) {
    omp_set_num_threads(1);
    try {
      {
        ThreadCommunicator communicator(group, rank);
        body(communicator);
      }
      world->end(rank);
    } catch (...) {
      world->end_by_exception(rank);
    }
  };

  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(run_rank, rank);
  } catch (const std::exception&) {  // the host refuses more threads: release those that run
    world->end_by_exception(static_cast<int>(threads.size()));
  }
  for (std::thread& thread : threads) thread.join();
  world->rethrow_first_error();
}

}  // namespace tessera
