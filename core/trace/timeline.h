#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A record of what one rank did when. Threads add to the timeline that a Timeline::Scope selects;
/// without one, a range costs a pointer comparison. Thread-safe.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  /// The thread that spent the time of a range.
  enum class Track : uint8_t {
    steps,       ///< the thread that runs the training steps
    background,  ///< the thread that progresses pending collectives
    pending,     ///< no thread: a collective, from its start until its result is in place
  };

  struct Range {
    std::string name;
    Track track = Track::steps;
    Clock::time_point begin, end;
    int64_t bytes = 0;  ///< transferred; 0 if that does not apply
  };

  Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// The calling thread's timeline; null if it has none.
  static Timeline* current() { return current_; }

  /// Sets the calling thread's timeline (null: none) for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(Timeline* timeline) : outer_(current_) { current_ = timeline; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timeline* outer_;
  };

  void add(std::string_view name, Track track, Clock::time_point begin, Clock::time_point end,
           int64_t bytes = 0);

  /// In the order in which they ended. No thread may add at the same time.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  inline static constinit thread_local Timeline* current_ = nullptr;

  std::mutex mutex_;
  std::vector<Range> ranges_;
};

}  // namespace tessera
