#include "launch/support/text/redrawn_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/support/text/print.h"
#include "launch/support/text/terminal.h"
#include "launch/support/text/terminal_text.h"

namespace tessera {

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
    write_as_is(terminal_, "\r\033[K" + first_columns(for_terminal(text), width() - 1));
    drawn_ = true;
  }
}

size_t RedrawnLine::width() const { return terminal_width(terminal_).value_or(kUsualWidth); }

void RedrawnLine::clear() {
  if (!drawn_) return;
  write_as_is(terminal_, "\r\033[K");
  drawn_ = false;
}

std::string progress_bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", width - filled);
}

}  // namespace tessera
