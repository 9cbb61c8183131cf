#include "core/trace/timeline.h"

namespace tessera {

void Timeline::add(std::string_view name, Track track, Clock::time_point begin,
                   Clock::time_point end, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_.push_back({std::string(name), track, begin, end, bytes});
}

}  // namespace tessera
