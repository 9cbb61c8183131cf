#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace tessera {

/// A terminal's last line, which is drawn again and again in its place. It is gone when this ends.
class RedrawnLine {
 public:
  /// Unless `watched` (terminal.h), nothing is drawn.
  RedrawnLine(std::FILE* terminal, bool watched) : terminal_(terminal), watched_(watched) {}
  ~RedrawnLine() { clear(); }
  RedrawnLine(const RedrawnLine&) = delete;
  RedrawnLine& operator=(const RedrawnLine&) = delete;

  /// Whether to draw now: somebody watches, and it was not done just before.
  bool is_due() const;
  void draw(const std::string& text);
  /// For other text to take its place.
  void clear();

 private:
  std::FILE* terminal_;
  bool watched_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_drawing_;
};

/// "[###...]" of 30 characters, for a fraction from 0 to 1.
std::string progress_bar(double fraction);

}  // namespace tessera
