#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/order.h"

namespace emulator {

/// The block that runs, its threads and their stacks. There is one in a process.
class Block {
 public:
  /// Runs one block of the launch; `blockIdx` is set.
  void run(const Launch& launch, Order& order, const std::function<void()>& body);

  // For the thread that runs:
  void barrier(const Site& site);
  void exchange(Parcel& parcel, const Site& site);
  int lane() const { return static_cast<int>(current_ % kWarp); }
  void* shared() { return shared_.get(); }

  /// Whether `address` lies in the page below the stack of the thread that runs.
  bool overflows_stack(const void* address) const;

 private:
  static constexpr unsigned kWarp = 32, kNone = ~0u;
  enum class State : uint8_t { ready, runs, at_barrier, at_exchange, ended };

  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;    // null until it waits: a fiber goes on with the next thread when one has ended
    Parcel* parcel;  // what it brings to an exchange
    Site site;       // where it waits
  };

  static void fiber_main();
  void prepare(const Launch& launch);
  unsigned next();
  void become(unsigned thread);
  void yield();
  Fiber* idle_fiber();
  void complete(unsigned first, unsigned mask);
  [[noreturn]] void fail_stuck() const;
  std::string place_of(unsigned thread) const;

  Shape shape_;
  unsigned count_ = 0;  // of threads
  std::vector<Thread> threads_;
  std::vector<unsigned> waiting_;  // by warp: the lanes at an exchange
  Order* order_ = nullptr;
  std::vector<unsigned> turns_;  // the threads in the order of this round
  unsigned turn_ = 0, current_ = 0;
  unsigned ready_ = 0, ended_ = 0, at_barrier_ = 0;
  const std::function<void()>* body_ = nullptr;
  HostThread host_;
  Fiber* fiber_ = nullptr;  // that runs
  std::vector<Fiber*> idle_;
  std::unique_ptr<std::byte[]> shared_;
};

Block& the_block();

}  // namespace emulator
