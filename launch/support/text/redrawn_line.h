#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace tessera {

/// The last line of a terminal, redrawn in place. Erased on destruction.
class RedrawnLine {
 public:
  /// Draws nothing unless `watched` (terminal.h).
  RedrawnLine(std::FILE* terminal, bool watched) : terminal_(terminal), watched_(watched) {}
  ~RedrawnLine() { clear(); }
  RedrawnLine(const RedrawnLine&) = delete;
  RedrawnLine& operator=(const RedrawnLine&) = delete;

  /// Returns whether to draw now: the terminal is watched and the last drawing is old enough.
  bool is_due() const;
  void draw(const std::string& text);
  /// Erases the line to make room for other output.
  void clear();

 private:
  std::FILE* terminal_;
  bool watched_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_drawing_;
};

/// "[###...]" with 30 characters, for a fraction from 0 to 1.
std::string progress_bar(double fraction);

}  // namespace tessera
