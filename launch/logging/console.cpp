#include "launch/logging/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/support/text/human_text.h"
#include "launch/support/text/print.h"
#include "launch/support/text/printable_text.h"
#include "launch/support/text/terminal.h"

namespace tessera {
namespace {

/// A log line shows the data wait from this fraction of the time on.
constexpr double kShownDataWait = 0.01;

std::string loss_text(const StepResult& result) {
  return result.has_targets ? measured(result.loss()) : "undefined (no targets)";
}

}  // namespace

Console::Console(bool prints, int64_t total_steps)
    : prints_(prints),
      total_steps_(total_steps),
      bar_(STDOUT_FILENO, prints && stdout_is_watched()) {}

void Console::line(const std::string& text) {
  if (!prints_) return;
  bar_.clear();
  const std::optional<std::string> problem = try_to_print(text + "\n");
  if (!problem || std::exchange(lost_lines_, true)) return;
  print_error("warning: lines for standard output are lost, but not those of metrics.jsonl: {}\n",
              *problem);
}

void Console::warning(const std::string& text) { line("warning: " + text); }

void Console::progress(const StepResult& result, double seconds_left) {
  losses_.add(result.loss());
  if (!bar_.is_due()) return;
  const std::string course = losses_.text();
  bar_.draw(fmt::format(
      "{} {}/{}  loss {}{}{}  {} left",
      progress_bar(static_cast<double>(result.step) / static_cast<double>(total_steps_)),
      result.step, total_steps_, loss_text(result), course.empty() ? "" : " ", course,
      human_duration(seconds_left)));
}

void Console::step(const StepResult& result, const Speed& speed, double seconds_left) {
  const bool padded = result.tokens != result.padded_tokens;
  const bool waits = speed.data_wait_seconds > kShownDataWait * speed.seconds;
  line(fmt::format(
      "step {:>{}}/{}  loss {}  grad norm {}  lr {:.2e}  {:.0f} tokens/s{}{}{}{}  {} left",
      result.step, std::to_string(total_steps_).size(), total_steps_, loss_text(result),
      measured(result.grad_norm, 3), result.lr, speed.tokens,
      padded ? fmt::format(" ({:.0f} with padding)", speed.padded_tokens) : "",
      speed.mfu ? "  MFU " + percent(*speed.mfu) : "",
      waits ? "  data wait " + percent(speed.data_wait_seconds / speed.seconds) : "",
      result.noise_scale ? fmt::format("  noise scale {:.4g}", *result.noise_scale) : "",
      human_duration(seconds_left)));
}

void Console::saved(const SavedCheckpoint& saved) {
  for (const std::string& text : saved.warnings) warning(text);
  std::string times = fmt::format("training waited {:.2f} s", saved.seconds);
  if (saved.background_seconds > 0.0) {
    times += fmt::format(", {:.2f} s in the background", saved.background_seconds);
  }
  line(fmt::format("saved {} ({})", saved.path.string(), times));
}

void Console::evaluation(int64_t step, const Evaluation& found) {
  const std::string datasets = describe_datasets(found);
  line(fmt::format("step {}  eval {}{}{}", step, describe(found), datasets.empty() ? "" : "  ",
                   datasets));
}

void Console::samples(int64_t step, const std::vector<ModelSample>& samples) {
  constexpr const char* kIndent = "    ";
  for (const auto& [prompt, text] : samples) {
    std::string shown = kIndent;
    for (const char c : text) {
      shown += c;
      if (c == '\n') shown += kIndent;
    }
    line(fmt::format("step {}  prompt \"{}\"\n{}", step, printable(prompt), shown));
  }
}

Speed StepClock::speed() const {
  if (seconds_ <= 0.0) return {};
  Speed speed{tokens_ / seconds_, padded_tokens_ / seconds_, flops_ / seconds_};
  speed.seconds = seconds_;
  speed.data_wait_seconds = data_wait_seconds_;
  if (peak_flops_) speed.mfu = speed.flops / *peak_flops_;
  return speed;
}

void StepClock::add(const StepResult& result) {
  tokens_ += static_cast<double>(result.tokens);
  padded_tokens_ += static_cast<double>(result.padded_tokens);
  flops_ += result.flops;
  seconds_ += result.seconds;
  data_wait_seconds_ += result.data_wait_seconds;
  constexpr double kMostTimesMean = 10.0;  // more is a pause, which says nothing about later steps
  double seconds = result.seconds_per_step();
  if (mean_seconds_ > 0.0) seconds = std::min(seconds, kMostTimesMean * mean_seconds_);
  const double memory = std::pow(0.99, static_cast<double>(result.steps));
  mean_seconds_ =
      mean_seconds_ == 0.0 ? seconds : memory * mean_seconds_ + (1.0 - memory) * seconds;
}

}  // namespace tessera
