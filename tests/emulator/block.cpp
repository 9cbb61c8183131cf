// Runs the threads of a block in rounds: each in turn, until it waits or ends.

#include "tests/emulator/block.h"

#include <bit>

namespace emulator {

Block& the_block() {
  static auto* block = new Block;  // its fibers never end
  return *block;
}

void Block::prepare(const Launch& launch) {
  const Shape& shape = launch.block;
  if (shape.x != shape_.x || shape.y != shape_.y || shape.z != shape_.z || threads_.empty()) {
    shape_ = shape;
    count_ = static_cast<unsigned>(shape.count());
    threads_.resize(count_);
    warps_ = std::vector<Warp>((count_ + kWarp - 1) / kWarp);
    for (unsigned i = 0; i < count_; ++i) {
      threads_[i].index = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
    }
  }
  for (Thread& thread : threads_) {
    thread.state = State::ready;
    thread.fiber = nullptr;
  }
  // Here, because what came before a fiber's creation comes before all that it does.
  while (kFindsRaces && idle_.size() < count_) idle_.push_back(make_fiber(&Block::fiber_main));
  ready_ = count_;
  ended_ = at_barrier_ = turn_ = 0;
  // Exactly this size, so that a sanitizer detects overruns; filled with NaN.
  shared_bytes_ = launch.shared_bytes;
  shared_.reset(new (kSharedAlignment) std::byte[shared_bytes_]);
  std::memset(shared_.get(), 0xff, shared_bytes_);
  products_.begin(shared_.get(), shared_bytes_, count_);
  starts_.release();
}

void Block::run(const Launch& launch, Order& order, const std::function<void()>& body) {
  prepare(launch);
  order_ = &order;
  order.put(count_, turns_);
  body_ = &body;
  become(next());
  fiber_ = fiber_of(current_);
  enter_fiber(host_, *fiber_);
  ends_.acquire();
  products_.end();
}

bool Block::overflows_stack(const void* address) const {
  if (fiber_ == nullptr) return false;
  return address < fiber_->bottom && address >= fiber_->bottom - kPage;
}

void Block::fiber_main() {
  fiber_entered();
  Block& block = the_block();
  for (;;) {
    block.starts_.acquire();
    (*block.body_)();
    block.ends_.release();
    block.threads_[block.current_].state = State::ended;
    ++block.ended_;
    const unsigned next = block.next();
    if (next != kNone) block.become(next);
    if (!kFindsRaces && next != kNone && block.threads_[next].fiber == nullptr) continue;
    Fiber& mine = *block.fiber_;
    if (!kFindsRaces) block.idle_.push_back(&mine);
    block.fiber_ = next == kNone ? nullptr : block.fiber_of(next);
    if (next == kNone) {
      leave_fiber(mine, block.host_);
    } else {
      switch_fiber(mine, *block.fiber_);
    }
  }
}

/// The fiber of a thread that waits, or one for a thread that has not started.
Fiber* Block::fiber_of(unsigned thread) {
  if (threads_[thread].fiber != nullptr) return threads_[thread].fiber;
  if (kFindsRaces) return idle_[thread];
  if (idle_.empty()) return make_fiber(&Block::fiber_main);
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

/// Returns the next thread to run, or none if all have ended.
unsigned Block::next() {
  if (ready_ == 0) {
    if (ended_ == count_) return kNone;
    fail_stuck();
  }
  for (;;) {
    if (turn_ == count_) {
      turn_ = 0;
      if (order_->changes()) order_->put(count_, turns_);
    }
    const unsigned thread = turns_[turn_++];
    if (threads_[thread].state == State::ready) return thread;
  }
}

void Block::become(unsigned thread) {
  --ready_;
  current_ = thread;
  threads_[thread].state = State::runs;
  threadIdx = threads_[thread].index;
}

/// Lets the other threads run until it is this thread's turn again.
void Block::yield() {
  Thread& mine = threads_[current_];
  mine.fiber = fiber_;
  become(next());
  if (&threads_[current_] == &mine) return;
  fiber_ = fiber_of(current_);
  switch_fiber(*mine.fiber, *fiber_);
}

void Block::barrier(const Site& site) {
  Thread& mine = threads_[current_];
  mine.state = State::at_barrier;
  mine.site = site;
  OrderPoint& point = barriers_.current();
  point.release();
  if (++at_barrier_ == count_) {
    for (unsigned i = 0; i < count_; ++i) {
      if (threads_[i].site.line() != site.line()) {
        fail("a barrier in divergent code: " + place_of(current_) + ", but " + place_of(i));
      }
      threads_[i].state = State::ready;
    }
    ready_ = count_;
    at_barrier_ = 0;
    ++barriers_.passed;
    products_.at_barrier();
  }
  yield();
  point.acquire();
}

void Block::exchange(Parcel& parcel, const Site& site) {
  const unsigned lane = current_ % kWarp, first = current_ - lane, mask = parcel.mask;
  Thread& mine = threads_[current_];
  mine.state = State::at_exchange;
  mine.parcel = &parcel;
  mine.site = site;
  if ((mask >> lane & 1u) == 0) fail("this lane is at an exchange whose mask excludes it");
  if (parcel.kind == Exchange::shuffle && (mask >> parcel.source & 1u) == 0) {
    fail("a shuffle reads a lane that its mask excludes");
  }
  Warp& warp = warps_[current_ / kWarp];
  // CUDA lets only barriers order accesses to memory.
  const bool orders = parcel.kind == Exchange::barrier;
  OrderPoint& point = warp.points.current();
  if (orders) point.release();
  warp.waiting |= 1u << lane;
  if ((warp.waiting & mask) == mask) {
    complete(first, mask);
    warp.waiting &= ~mask;
    if (orders) ++warp.points.passed;
  }
  yield();
  if (orders) point.acquire();
}

/// All lanes of the mask have reached an exchange: delivers their results.
void Block::complete(unsigned first, unsigned mask) {
  const Thread& mine = threads_[current_];
  std::byte values[kWarp][16];
  void* brought[kWarp] = {};
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1u) == 0) continue;
    const Thread& other = threads_[first + lane];
    const Parcel &a = *mine.parcel, &b = *other.parcel;
    if (a.kind != b.kind || a.size != b.size || a.mask != b.mask ||
        mine.site.line() != other.site.line()) {
      fail("lanes at different exchanges: " + place_of(current_) + ", but " +
           place_of(first + lane));
    }
    std::memcpy(values[lane], b.value, sizeof(b.value));
    brought[lane] = b.mine;
    if (b.value[0] != std::byte{0}) ballot |= 1u << lane;
  }
  if (mine.parcel->kind == Exchange::together) mine.parcel->work(brought);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1u) == 0) continue;
    Thread& other = threads_[first + lane];
    Parcel& parcel = *other.parcel;
    if (parcel.kind == Exchange::shuffle) {
      std::memcpy(parcel.value, values[parcel.source], sizeof(parcel.value));
    } else if (parcel.kind == Exchange::vote) {
      std::memcpy(parcel.value, &ballot, sizeof(ballot));
    }
    other.state = State::ready;
  }
  ready_ += static_cast<unsigned>(std::popcount(mask));
}

}  // namespace emulator
