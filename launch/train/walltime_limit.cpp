#include "launch/train/walltime_limit.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/process_stat.h"
#include "core/trace/flight_recorder.h"
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

using Clock = WalltimeLimit::Clock;
using Seconds = std::chrono::duration<double>;

constexpr double kForTheEnd = 2.0;  // seconds: the last lines of logs, and the end of the processes
constexpr double kSaveMargin = 1.5, kStepMargin = 2.0;
constexpr double kForget = 0.99;

/// How long ago this process started, in seconds; 0 if unknown.
double process_age() {
  const auto stat = read_process_stat(::getpid());
  if (!stat) return 0.0;
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double started =
      static_cast<double>(stat->start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  return std::max(0.0, age - started);
}

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

}  // namespace

std::optional<WalltimeEnd> walltime_end(const RunSection& run, bool is_automatic) {
  if (!is_automatic) {
    if (run.walltime == 0) return std::nullopt;
    return WalltimeEnd{in_seconds(static_cast<double>(run.walltime) - process_age()),
                       "run.walltime"};
  }
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  const auto end = text == nullptr ? std::nullopt : parse_integer(text);  // seconds since 1970
  if (!end || *end <= 0) return std::nullopt;
  const double now = static_cast<double>(now_in_nanoseconds()) / 1e9;
  return WalltimeEnd{in_seconds(static_cast<double>(*end) - now), "the Slurm job"};
}

double assumed_save_seconds(int64_t parameters) {
  return 1.0 + 12.0 * static_cast<double>(parameters) / 100e6;
}

bool WalltimeLimit::must_end(Clock::time_point now, bool evaluates) {
  if (!end_) return false;
  // The first two steps of a start also allocate memory and compile.
  if (last_ && ++steps_ > 2) {
    const double length = Seconds(now - *last_ - evaluated_).count();
    step_ = std::max(length, step_ * kForget);
  }
  last_ = now;
  evaluated_ = Clock::duration{0};
  const double save = save_ > 0.0 ? save_ : assumed_save_;
  const double needed = kForTheEnd + kSaveMargin * save + kStepMargin * step_ +
                        (evaluates ? kStepMargin * evaluation_ : 0.0);
  return seconds_left(now) < needed;
}

void WalltimeLimit::add_save(double seconds) { save_ = std::max(save_, seconds); }

void WalltimeLimit::add_evaluation(Clock::duration length) {
  evaluated_ += length;
  evaluation_ = std::max(evaluation_, Seconds(evaluated_).count());
}

double WalltimeLimit::seconds_left(Clock::time_point now) const {
  return Seconds(end_->time - now).count();
}

}  // namespace tessera
