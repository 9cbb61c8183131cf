#include "launch/observe/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "launch/observe/terminal.h"

namespace tessera {

Console::Console(bool prints, int64_t total_steps)
    : prints_(prints), watched_(prints && stdout_is_watched()), total_steps_(total_steps) {}

Console::~Console() { clear_bar(); }

void Console::clear_bar() {
  if (!bar_drawn_) return;
  fmt::print("\r\033[K");
  std::fflush(stdout);
  bar_drawn_ = false;
}

void Console::line(const std::string& text) {
  if (!prints_) return;
  clear_bar();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Console::warning(const std::string& text) { line("warning: " + text); }

void Console::progress(const StepResult& result, double seconds_left) {
  if (!watched_) return;
  // Steps of small models are much shorter than what an eye sees or a slow line carries.
  constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawing_ < kBetweenDrawings) return;
  last_drawing_ = now;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(result.step * kWidth / total_steps_);
  fmt::print("\r\033[K[{:#<{}}{:.<{}}] {}/{}  loss {:.4f}  {} left", "", filled, "",
             kWidth - filled, result.step, total_steps_, result.loss(),
             human_duration(seconds_left));
  std::fflush(stdout);
  bar_drawn_ = true;
}

void Console::step(const StepResult& result, const Speed& speed, double seconds_left) {
  const bool padded = result.tokens != result.padded_tokens;
  line(fmt::format(
      "step {:>{}}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.2e}  {:.0f} tokens/s{}  {} left",
      result.step, std::to_string(total_steps_).size(), total_steps_, result.loss(),
      result.grad_norm, result.lr, speed.tokens,
      padded ? fmt::format(" ({:.0f} with padding)", speed.padded_tokens) : "",
      human_duration(seconds_left)));
}

void Console::evaluation(int64_t step, const Evaluation& found) {
  std::string text = fmt::format("step {}  eval loss {:.4f}", step, found.losses.total());
  if (found.counts.token_targets > 0) {
    text += fmt::format("  token accuracy {:.1f}% (always the most frequent: {:.1f}%)",
                        100.0 * found.token_accuracy, 100.0 * found.most_frequent_token);
  }
  if (found.counts.document_targets > 0) {
    text += fmt::format("  {} accuracy {:.1f}%", found.f1.empty() ? "next-sentence" : "label",
                        100.0 * found.document_accuracy);
  }
  if (!found.f1.empty()) {
    text += fmt::format(" (always the most frequent: {:.1f}%)  macro F1 {:.3f}",
                        100.0 * found.most_frequent_label, found.macro_f1());
  }
  line(text);
}

std::string human_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

void StepClock::add(const StepResult& result) {
  tokens_ += static_cast<double>(result.tokens);
  padded_tokens_ += static_cast<double>(result.padded_tokens);
  seconds_ += result.seconds;
  constexpr double kMemory = 0.99;
  mean_seconds_ = mean_seconds_ == 0.0 ? result.seconds
                                       : kMemory * mean_seconds_ + (1.0 - kMemory) * result.seconds;
}

}  // namespace tessera
