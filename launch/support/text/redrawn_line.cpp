#include "launch/support/text/redrawn_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

bool RedrawnLine::is_due() const {
  // Faster redraws are invisible and overload slow connections.
  constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);
  return watched_ && std::chrono::steady_clock::now() - last_drawing_ >= kBetweenDrawings;
}

void RedrawnLine::draw(const std::string& text) {
  last_drawing_ = std::chrono::steady_clock::now();
  fmt::print(terminal_, "\r\033[K{}", text);
  std::fflush(terminal_);
  drawn_ = true;
}

void RedrawnLine::clear() {
  if (!drawn_) return;
  fmt::print(terminal_, "\r\033[K");
  std::fflush(terminal_);
  drawn_ = false;
}

std::string progress_bar(double fraction) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kWidth - filled);
}

}  // namespace tessera
