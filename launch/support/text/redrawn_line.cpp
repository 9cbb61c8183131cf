#include "launch/support/text/redrawn_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "launch/support/text/print.h"
#include "launch/support/text/terminal_text.h"

namespace tessera {
namespace {

/// Returns the characters in a line of a terminal, or many if it does not say.
size_t width_of(int terminal) {
  struct winsize size = {};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 1000;
  return size.ws_col;
}

}  // namespace

bool RedrawnLine::is_due() const {
  // Faster redraws are invisible and overload slow connections.
  constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);
  const auto age = Clock::now() - last_drawing_;
  return watched_ ? age >= kBetweenDrawings : between_lines_ && age >= *between_lines_;
}

void RedrawnLine::draw(const std::string& text) {
  last_drawing_ = Clock::now();
  if (!watched_) {
    write_as_is(terminal_, for_terminal(text) + "\n");
  } else {
    write_as_is(terminal_, "\r\033[K" + for_terminal(text).substr(0, width_of(terminal_) - 1));
    drawn_ = true;
  }
}

void RedrawnLine::clear() {
  if (!drawn_) return;
  write_as_is(terminal_, "\r\033[K");
  drawn_ = false;
}

std::string progress_bar(double fraction) {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kWidth - filled);
}

}  // namespace tessera
