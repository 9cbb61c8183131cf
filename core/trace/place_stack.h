#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace tessera {

/// The names of a thread's open TraceRanges, in memory that other processes may read at any time
/// (core/trace/flight_recorder.h). Only the thread writes; a reader may see the innermost name half
/// written.
struct PlaceStack {
  static constexpr uint32_t kDepth = 12;  ///< deeper ranges are counted, but have no name
  static constexpr size_t kName = 40;     ///< longer names are cut

  std::atomic<uint64_t> events{0};  ///< ranges that have been entered: grows while a thread works
  std::atomic<uint32_t> depth{0};
  std::array<std::array<char, kName>, kDepth> names{};

  void enter(const char* name) noexcept {
    const uint32_t place = depth.load(std::memory_order_relaxed);
    if (place < kDepth) {
      const size_t length = ::strnlen(name, kName - 1);
      std::memcpy(names[place].data(), name, length);
      names[place][length] = '\0';
    }
    depth.store(place + 1, std::memory_order_release);
    events.store(events.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void leave() noexcept {
    depth.store(depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }

  /// The calling thread's stack; null if nobody records it.
  static PlaceStack* current() { return current_; }

  /// Sets the calling thread's stack (null: none) for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(PlaceStack* stack) : outer_(current_) { current_ = stack; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PlaceStack* outer_;
  };

 private:
  inline static constinit thread_local PlaceStack* current_ = nullptr;
};

}  // namespace tessera
