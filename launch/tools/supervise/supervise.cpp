#include "launch/tools/supervise/supervise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/trace/flight_recorder.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/config/load_config.h"
#include "launch/support/end_signals.h"
#include "launch/support/exit_codes.h"
#include "launch/support/text/print.h"
#include "launch/tools/supervise/choose_layout.h"
#include "launch/tools/supervise/journal.h"
#include "launch/tools/supervise/launch_command.h"
#include "launch/tools/supervise/start_watch.h"
#include "launch/tools/supervise/supervised_process.h"
#include "launch/train/start/stop_signal.h"
#include "launch/train/walltime_limit.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kShortest = 10.0;  // seconds of walltime that are worth a start

volatile std::sig_atomic_t stops_asked = 0, interrupts_asked = 0;

extern "C" void ask_to_stop(int number) {
  stops_asked = stops_asked + 1;
  if (number == SIGINT) interrupts_asked = interrupts_asked + 1;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseOptions& options)
      : options_(options),
        command_(options.command),
        config_(load_config(command_.config(), command_.overrides())),
        end_(walltime_end(config_.run, config_.automatic.contains("run.walltime"))),
        journal_(config_.run.dir, options.restarts.restarts),
        policy_(options.restarts) {
    for (const int number : kStopSignals) std::signal(number, ask_to_stop);
    if (!is_ignored(SIGHUP)) std::signal(SIGHUP, ask_to_stop);
  }

  ExitCode run() {
    const ExitCode code = run_starts();
    const bool is_over =
        code == ExitCode::finished || code == ExitCode::usage || code == ExitCode::configuration;
    if (is_over || options_.resume.empty()) return code;
    const std::optional<int64_t> saved = newest_step();
    print_error(
        "{}: {}\n",
        saved ? fmt::format("to resume from step {}", *saved) : "nothing is saved; to start again",
        options_.resume);
    return code;
  }

 private:
  ExitCode run_starts() {
    while (true) {
      const std::optional<int64_t> before = newest_step();
      const RunEnd end = start();
      const std::optional<int64_t> after = newest_step();
      const bool asked = stops_asked > 0;
      Decision decision = policy_.after(end, after > before, asked);
      const bool adapts = decision.restarts && !decision.lost_host.empty();
      if (adapts) leave_out(decision.lost_host);
      const double ending = 2.0 * static_cast<double>(options_.kill_grace);
      if (decision.restarts && end_ && seconds_left() < kShortest + ending) {
        journal_.add("finish", "no restart: the walltime is over", {{"exit_code", 98}});
        return ExitCode::out_of_time;
      }
      if (decision.restarts) {
        journal_.add("restart", fmt::format("starts again in {:.0f} s", decision.delay),
                     {{"delay", decision.delay}});
        if (sleep(decision.delay)) continue;
        decision.why = "it was asked to stop";
      }
      ExitCode code = asked ? code_when_asked(end) : end.code;
      if (decision.restarts) code = ExitCode::stopped;  // asked while no run was there to stop
      journal_.add("finish",
                   fmt::format("ends with exit code {}: {}", static_cast<int>(code), decision.why),
                   {{"exit_code", static_cast<int>(code)}, {"why", decision.why}});
      return code;
    }
  }

  /// A run that a signal ended before it could save, as in its first seconds, is stopped, too.
  static ExitCode code_when_asked(const RunEnd& end) {
    const int signal = end.launcher_code - 128;
    const bool is_signal = signal == SIGUSR1 || signal == SIGTERM || signal == kEndLauncher;
    return is_signal ? ExitCode::stopped : end.code;
  }

  double seconds_left() const {
    return std::chrono::duration<double>(end_->time - Clock::now()).count();
  }

  /// The newest checkpoint's; none at all is less than any.
  std::optional<int64_t> newest_step() const {
    const auto steps = step_folders(checkpoints_folder(config_.run.dir));
    return steps.empty() ? std::nullopt : std::optional(steps.front().step);
  }

  LaunchCommand next_command() const {
    if (!end_) return command_;
    // The limit counts from the start of the supervisor, and mpirun takes some time to end.
    const auto left = static_cast<int64_t>(seconds_left()) - 2 * options_.kill_grace - 1;
    return command_.with_override(fmt::format("run.walltime={}", std::max<int64_t>(1, left)));
  }

  RunEnd start() {
    const LaunchCommand command = next_command();
    const std::optional<int64_t> step = newest_step();
    ++starts_;
    journal_.add(
        "start",
        fmt::format("start {}{}: {}", starts_, step ? fmt::format(" from step {}", *step) : "",
                    fmt::join(command.words(), " ")),
        {{"start", starts_}, {"step", step.value_or(0)}, {"command", command.words()}});
    const auto began = Clock::now();
    StartWatch watch(config_.run, options_.start_timeout);
    const std::string grace = std::to_string(options_.kill_grace);
    RunEnd end;
    {
      SupervisedProcess process(command.words(), {{"OMPI_MCA_odls_base_sigkill_timeout", grace},
                                                  {"PRTE_MCA_odls_base_sigkill_timeout", grace},
                                                  {kLauncherVariable, "1"}});
      const int code = wait(process, watch);
      end = explain_end(code, process.error_output(), watch.look(), watch.observed());
    }
    ranks_ = watch.ranks() > 0 ? watch.ranks() : ranks_;
    const std::optional<int64_t> saved = newest_step();
    Json line = {{"start", starts_},
                 {"exit_code", static_cast<int>(end.code)},
                 {"launcher_exit_code", end.launcher_code},
                 {"reason", find_exit_code(static_cast<int>(end.code))->name},
                 {"what", end.what},
                 {"seconds", seconds_since(began)},
                 {"step", saved.value_or(0)}};
    if (end.rank) line["rank"] = *end.rank;
    if (!end.host.empty()) line["host"] = end.host;
    journal_.add(
        "end",
        fmt::format("start {} ended after {:.0f} s, {}: {}", starts_, seconds_since(began),
                    saved ? fmt::format("step {} is saved", *saved) : "nothing is saved", end.what),
        line);
    return end;
  }

  /// Waits for the command's end. Forwards a request to stop, and ends a command that does not end
  /// by itself.
  int wait(SupervisedProcess& process, StartWatch& watch) {
    std::optional<Clock::time_point> asked, forwarded, terminated;
    int of_first = 0;  // interrupts that belong to the first request
    bool ends_now = false;
    auto looked = Clock::now();
    while (true) {
      if (const auto code = process.wait(/*milliseconds=*/100)) return *code;
      const int interrupts = interrupts_asked;
      if (stops_asked > 0 && !asked) {
        asked = Clock::now();
        answer(watch, stopping_text, "the run has not begun to train: it ends now");
        journal_.add("stop", "asked to stop: the run saves and ends", Json::object());
      }
      if (asked && seconds_since(*asked) < kOneRequest) of_first = interrupts;
      const bool again = asked && interrupts > of_first;
      if (again && !ends_now) answer(watch, ending_text, "ending now");
      ends_now = again;
      // mpirun forwards it, and leaves the ranks all the time they need. At first it has none.
      if (asked && (!forwarded || (step_of(watch) == 0 && seconds_since(*forwarded) > 1.0))) {
        forwarded = Clock::now();
        process.signal(SIGUSR1);
      }
      const double limit = options_.stop_timeout;
      if (ends_now || (asked && limit > 0.0 && seconds_since(*asked) > limit)) {
        terminate(process, terminated);
      } else if (seconds_since(looked) > 0.5) {
        looked = Clock::now();
        const StartWatch::Verdict verdict = watch.check();
        if (verdict == StartWatch::Verdict::kill) watch.kill_ranks();
        if (verdict == StartWatch::Verdict::terminate) terminate(process, terminated);
      }
    }
  }

  /// The step that the ranks of this start are in; 0 before the first.
  static int64_t step_of(const StartWatch& watch) {
    int64_t step = 0;
    for (const RankView& view : watch.look()) {
      if (view.ring) step = std::max(step, view.ring->step);
    }
    return step;
  }

  /// Tells people at once what a signal does to the steps of this start.
  void answer(const StartWatch& watch, std::string (*text)(int64_t, std::optional<int64_t>),
              const char* before_steps) const {
    const int64_t step = step_of(watch);
    print_error("{}{}\n", ::isatty(STDERR_FILENO) == 1 ? "\n" : "",
                step == 0 ? before_steps : text(step - 1, newest_step()));
  }

  /// First lets the launcher end the ranks of all hosts, then kills what is left here.
  void terminate(const SupervisedProcess& process,
                 std::optional<Clock::time_point>& terminated) const {
    if (!terminated) {
      terminated = Clock::now();
      process.signal(kEndLauncher);
    } else if (seconds_since(*terminated) > 2.0 * static_cast<double>(options_.kill_grace) + 5.0) {
      process.kill_all();
    }
  }

  /// Returns false if it was asked to stop meanwhile.
  static bool sleep(double seconds) {
    const auto began = Clock::now();
    while (stops_asked == 0 && seconds_since(began) < seconds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return stops_asked == 0;
  }

  void leave_out(const std::string& lost) {
    const auto stays = [&](const std::string& why) {
      journal_.add("host_stays",
                   fmt::format("host {} failed {} times in a row, but {}", lost,
                               options_.restarts.most_host_failures, why),
                   {{"host", lost}, {"why", why}});
    };
    std::vector<LaunchHost> left;
    int64_t slots = 0;
    bool knows_slots = true;
    for (const LaunchHost& host : command_.hosts()) {
      if (is_same_host(host.name, lost)) continue;
      left.push_back(host);
      knows_slots = knows_slots && host.slots.has_value();
      slots += host.slots.value_or(0);
    }
    if (left.size() == command_.hosts().size()) {
      return stays("the command does not name it in --host or --hostfile, so it is not left out");
    }
    if (left.empty()) return stays("there is no other");
    if (!knows_slots) {
      return stays("the hostfile does not say the slots of each host, so it is not left out");
    }
    const int64_t ranks = command_.ranks().value_or(ranks_);
    const int64_t most = ranks > 0 ? std::min(ranks, slots) : slots;
    std::optional<ChosenLayout> layout;
    try {
      layout = choose_layout(config_, most, options_.memory);
    } catch (const Error& error) {  // it reads the data's description
      return stays(fmt::format("no layout of fewer ranks is found: {}", error.what()));
    }
    if (!layout) {
      return stays(fmt::format("no layout of at most {} ranks suits the configuration", most));
    }
    command_ = command_.with_hosts(left, fs::path(config_.run.dir) / "supervise_hostfile")
                   .with_ranks(layout->ranks);
    for (const std::string& key : layout->overrides) command_ = command_.with_override(key);
    journal_.add(
        "host_left_out",
        fmt::format("host {} failed {} times in a row and is left out: {} ranks, {} tensor "
                    "ranks",
                    lost, options_.restarts.most_host_failures, layout->ranks, layout->tensor),
        {{"host", lost}, {"ranks", layout->ranks}, {"tensor", layout->tensor}});
    config_ = load_config(command_.config(), command_.overrides());
  }

  SuperviseOptions options_;
  LaunchCommand command_;
  RunConfig config_;
  std::optional<WalltimeEnd> end_;
  Journal journal_;
  RestartPolicy policy_;
  int64_t starts_ = 0;
  int64_t ranks_ = 0;  // of the last start
};

}  // namespace

ExitCode supervise(const SuperviseOptions& options) { return Supervisor(options).run(); }

}  // namespace tessera
