#include "launch/logging/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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

/// "9503", "29.5k", "130k"
std::string rate_text(double rate) {
  if (rate < 10'000.0) return fmt::format("{:.0f}", rate);
  return fmt::format("{:.{}f}k", rate / 1000.0, rate < 100'000.0 ? 1 : 0);
}

/// "2.0e-4", which is shorter than what fmt and printf write.
std::string exponential(double number) {
  std::string text = fmt::format("{:.1e}", number);
  const size_t zero = text.size() - 2;  // of "e-04"
  if (text[zero] == '0') text.erase(zero, 1);
  return text;
}

}  // namespace

Console::Console(bool prints, int64_t total_steps)
    : prints_(prints),
      total_steps_(total_steps),
      bar_(STDOUT_FILENO, prints && stdout_is_watched()) {}

void Console::line(const std::string& text) {
  if (!prints_) return;
  bar_.clear();
  const std::optional<std::string> problem =
      try_to_print((bar_.watched() ? wrapped(text, bar_.width()) : text) + "\n");
  if (!problem || std::exchange(lost_lines_, true)) return;
  print_error("warning: lines for standard output are lost, but not those of metrics.jsonl: {}\n",
              *problem);
}

void Console::warning(const std::string& text) { line("warning: " + text); }

void Console::progress(const StepResult& result, std::optional<double> seconds_left) {
  losses_.add(result.loss());
  if (!bar_.is_due()) return;
  const double done = static_cast<double>(result.step) / static_cast<double>(total_steps_);
  bar_.draw(fmt::format("{} {}/{}  loss {}  {}{}", progress_bar(done, /*width=*/16), result.step,
                        total_steps_, loss_text(result),
                        seconds_left ? human_duration(*seconds_left) + " left  " : "",
                        losses_.text()));
}

void Console::step(const StepResult& result, const Speed& speed,
                   std::optional<double> seconds_left) {
  const bool padded = speed.tokens < speed.padded_tokens;
  const bool waits = speed.data_wait_seconds > kShownDataWait * speed.seconds;
  std::vector<std::string> fields = {
      fmt::format("step {:>{}}/{}", result.step, std::to_string(total_steps_).size(), total_steps_),
      "loss " + loss_text(result), "norm " + measured(result.grad_norm, 3),
      "lr " + exponential(result.lr), rate_text(speed.tokens) + " tok/s"};
  if (seconds_left) fields.push_back(human_duration(*seconds_left) + " left");
  if (speed.mfu) fields.push_back("MFU " + percent(*speed.mfu));
  if (padded) {
    fields.push_back(
        fmt::format("padding {:.0f}%", 100.0 - 100.0 * speed.tokens / speed.padded_tokens));
  }
  if (waits) {
    fields.push_back("data wait " + percent(speed.data_wait_seconds / speed.seconds));
  }
  if (result.noise_scale) fields.push_back(fmt::format("noise scale {:.4g}", *result.noise_scale));
  line(in_columns(fields, bar_.watched() ? bar_.width() : kUsualWidth));
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
  constexpr double kMostSteps = 100.0;     // that the mean is of
  const double seconds = result.seconds_per_step();
  all_seconds_ += result.seconds;
  if (++results_ <= kWarmUp) {
    mean_seconds_ = seconds;
    return;
  }
  const auto steps = static_cast<double>(result.steps);
  mean_steps_ = std::min(mean_steps_ + steps, kMostSteps);
  const double part = std::min(1.0, steps / mean_steps_);
  mean_seconds_ += part * (std::min(seconds, kMostTimesMean * mean_seconds_) - mean_seconds_);
}

}  // namespace tessera
