#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tessera {

/// The last line of a terminal, redrawn in place. Erased on destruction.
class RedrawnLine {
 public:
  /// Unless `watched` (terminal.h), draws nothing, or with `between_lines` prints a line of its own
  /// each time that so much time has passed, as for the log of a job.
  RedrawnLine(int terminal, bool watched,
              std::optional<std::chrono::milliseconds> between_lines = {})
      : terminal_(terminal),
        watched_(watched),
        between_lines_(between_lines),
        last_drawing_(watched ? Clock::time_point() : Clock::now()) {}
  ~RedrawnLine() { clear(); }
  RedrawnLine(const RedrawnLine&) = delete;
  RedrawnLine& operator=(const RedrawnLine&) = delete;

  /// Returns whether to draw now: somebody reads it and the last drawing is old enough.
  bool is_due() const;
  /// Draws a line. A terminal shows what fits its width, because it would not redraw the rest.
  void draw(const std::string& text);
  /// Erases the line to make room for other output.
  void clear();
  /// Columns of the terminal, or the usual number.
  size_t width() const;
  bool watched() const { return watched_; }

 private:
  using Clock = std::chrono::steady_clock;

  int terminal_;  // descriptor
  bool watched_;
  std::optional<std::chrono::milliseconds> between_lines_;
  bool drawn_ = false;
  Clock::time_point last_drawing_;
};

/// "[###...]" for a fraction from 0 to 1.
std::string progress_bar(double fraction, int width = 30);

}  // namespace tessera
