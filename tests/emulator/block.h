#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/group_products.h"
#include "tests/emulator/order.h"
#include "tests/emulator/order_point.h"

namespace emulator {

/// The running block, its threads and their stacks. A process has only one.
class Block {
 public:
  /// Runs one block of the launch. `blockIdx` must be set.
  void run(const Launch& launch, Order& order, const std::function<void()>& body);

  // Called by the running thread:
  void barrier(const Site& site);
  void exchange(Parcel& parcel, const Site& site);
  int lane() const { return static_cast<int>(current_ % kWarp); }
  unsigned thread() const { return current_; }
  std::byte* shared() { return shared_.get(); }
  size_t shared_bytes() const { return shared_bytes_; }
  GroupProducts& products() { return products_; }

  /// Returns whether `address` is in the page below the running thread's stack.
  bool overflows_stack(const void* address) const;

 private:
  static constexpr unsigned kWarp = 32, kNone = ~0u;
  enum class State : uint8_t { ready, runs, at_barrier, at_exchange, ended };

  struct Thread {
    uint3 index;
    State state;
    Fiber* fiber;    // null until it waits, unless each thread has one
    Parcel* parcel;  // what it passes to an exchange
    Site site;       // number of threads
  };

  // What orders the accesses of threads that wait for each other. While some leave a point, others
  // may reach the next one.
  struct OrderPoints {
    OrderPoint& current() { return two[passed % 2]; }
    OrderPoint two[2];
    unsigned passed = 0;
  };

  struct Warp {
    unsigned waiting = 0;  // lanes at an exchange
    OrderPoints points;
  };

  static void fiber_main();
  void prepare(const Launch& launch);
  unsigned next();
  void become(unsigned thread);
  void yield();
  Fiber* fiber_of(unsigned thread);
  void complete(unsigned first, unsigned mask);
  [[noreturn]] void fail_stuck() const;
  std::string place_of(unsigned thread) const;

  Shape shape_;
  unsigned count_ = 0;  // of threads
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  OrderPoints barriers_;
  OrderPoint starts_, ends_;
  Order* order_ = nullptr;
  std::vector<unsigned> turns_;  // order of the threads in this round
  unsigned turn_ = 0, current_ = 0;
  unsigned ready_ = 0, ended_ = 0, at_barrier_ = 0;
  const std::function<void()>* body_ = nullptr;
  HostThread host_;
  Fiber* fiber_ = nullptr;    // the running one
  std::vector<Fiber*> idle_;  // or, if each thread has its own, all
  // Aligned as a GPU's may be requested to be.
  struct FreeShared {
    void operator()(std::byte* data) const { operator delete[](data, kSharedAlignment); }
  };
  static constexpr std::align_val_t kSharedAlignment{1024};
  std::unique_ptr<std::byte[], FreeShared> shared_;
  size_t shared_bytes_ = 0;
  GroupProducts products_;
};

Block& the_block();

}  // namespace emulator
