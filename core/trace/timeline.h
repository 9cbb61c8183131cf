#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What one rank did when. Threads add to the timeline that they were told to take part in
/// (Timeline::Scope); where there is none, a range costs one look at a pointer. Any number of
/// threads may add at once.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Whose time a range took.
  enum class Track : uint8_t {
    steps,       ///< the thread that takes the steps
    background,  ///< what moves pending collectives on beside it
    under_way,   ///< nobody's: a collective, from its start until its result was in place
  };

  struct Range {
    std::string name;
    Track track = Track::steps;
    Clock::time_point begin, end;
    int64_t bytes = 0;  ///< that it is about; 0 where that is nothing to say
  };

  Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// The timeline that the calling thread adds to; null if there is none.
  static Timeline* current() { return current_; }

  /// The calling thread adds to `timeline`, or to none if that is null, as long as this lives.
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

  /// In the order in which they ended; no thread may add any more.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  inline static constinit thread_local Timeline* current_ = nullptr;

  std::mutex mutex_;
  std::vector<Range> ranges_;
};

}  // namespace tessera
