#include "launch/generation/repetition_penalty.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tessera {

void check_repetition_penalty(double penalty) {
  require(std::isfinite(penalty) && penalty > 0.0,
          "--repetition-penalty is {}: it is a positive number, and 1 means no penalty", penalty);
}

RepetitionPenalty::RepetitionPenalty(double penalty) : penalty_(penalty) {
  check_repetition_penalty(penalty);
}

void RepetitionPenalty::see(std::span<const int32_t> tokens) {
  if (penalty_ == 1.0) return;
  for (const int32_t token : tokens) {
    const auto place = static_cast<size_t>(token);
    if (place >= seen_.size()) seen_.resize(std::max(place + 1, 2 * seen_.size()));
    seen_[place] = true;
  }
}

}  // namespace tessera
