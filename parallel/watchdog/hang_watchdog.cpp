#include "parallel/watchdog/hang_watchdog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "core/exit_code.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kShortestTick{50}, kLongestTick{1000};
/// How long a rank waits until another one has written the report, before it ends.
constexpr std::chrono::seconds kForReport{20};
/// How long the reporting rank waits for other hosts' notes.
constexpr std::chrono::seconds kForNotes{3};
/// How many ticks the ranks on other hosts wait for one on the host of rank 0 to report.
constexpr int kFirstTicks = 4;

int64_t cpu_time(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Bytes that the process has read and written, as far as the system counts them.
uint64_t bytes_of_files() {
  std::ifstream file("/proc/self/io");
  uint64_t sum = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == "rchar:" || name == "wchar:") sum += value;
  }
  return sum;
}

std::string note_name(uint64_t progress, const std::string& host) {
  return fmt::format("hang_{}.{}", progress, host);
}

/// Waits for a file that another rank makes.
void wait_for_file(const fs::path& file, std::chrono::steady_clock::duration longest) {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  std::error_code error;
  while (!fs::exists(file, error) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kShortestTick);
  }
}

void print_to_stderr(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    rest.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

HangWatchdog::HangWatchdog(FlightRecorder& recorder, Options options)
    : recorder_(recorder),
      options_(std::move(options)),
      tick_(options_.timeout.count() == 0
                ? kLongestTick
                : std::clamp<std::chrono::milliseconds>(options_.timeout / 20, kShortestTick,
                                                        kLongestTick)) {
  if (!options_.print) options_.print = print_to_stderr;
  if (!options_.end_process)
    options_.end_process = [] { ::_exit(static_cast<int>(ExitCode::hang)); };
  thread_.start([this] { watch(); });
}

HangWatchdog::~HangWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
}

void HangWatchdog::watch() {
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, tick_, [&] { return ends_; });
    if (ends_) return;
    lock.unlock();
    const auto now = Clock::now();
    // If this process was stopped too, the time does not count.
    const Clock::duration passed = std::min<Clock::duration>(now - last, 2 * tick_);
    last = now;
    beat(passed);
    if (options_.timeout.count() > 0) check(passed);
    lock.lock();
  }
}

void HangWatchdog::beat(Clock::duration passed) {
  constexpr double kBusy = 0.1;  // of a core; polling for messages takes less
  constexpr uint64_t kBytes = 65536;
  FlightRing& ring = recorder_.ring();
  ring.heartbeat.store(now_in_nanoseconds(), std::memory_order_relaxed);
  const int64_t cpu = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
  const int64_t own = cpu_time(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t bytes = bytes_of_files();
  const int64_t others = (cpu - cpu_time_) - (own - own_cpu_time_);
  const bool computes = static_cast<double>(others) >
                        kBusy * static_cast<double>(std::chrono::nanoseconds(passed).count());
  if (computes || bytes - file_bytes_ > kBytes) {
    ring.activity.store(ring.activity.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  }
  cpu_time_ = cpu;
  own_cpu_time_ = own;
  file_bytes_ = bytes;
}

uint64_t HangWatchdog::progress_of_all() const {
  uint64_t sum = 0;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    sum += read_progress(flight_file(options_.folder, rank));
  }
  return sum;
}

void HangWatchdog::check(Clock::duration passed) {
  if (reported_) {
    if (progress_of_all() == *reported_) return;
    if (is_reporter_) options_.print("tessera: the run makes progress again\n");
    reported_.reset();
    waiting_ = 0;
  }
  const uint64_t waiting = recorder_.ring().waiting.load(std::memory_order_acquire);
  if (waiting == 0 || waiting != waiting_) {
    waiting_ = waiting;
    progress_.reset();
    quiet_ = Clock::duration{0};
    return;
  }
  quiet_ += passed;
  if (quiet_ < options_.timeout / 4) return;  // most waits are short: do not read files
  // Whoever removed the folder has taken away what tells waiting from hanging.
  if (read_progress(flight_file(options_.folder, options_.rank)) == 0) return;
  const uint64_t progress = progress_of_all();
  if (progress != progress_) {
    // The first look begins to compare; a later one sees progress.
    if (progress_) quiet_ = Clock::duration{0};
    progress_ = progress;
    return;
  }
  if (quiet_ < options_.timeout) return;
  reported_ = progress;
  handle_hang(progress);
}

bool HangWatchdog::claim(const fs::path& file) const {
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made >= 0) ::close(made);
  return made >= 0 || errno != EEXIST;  // on a full disk, several reports are better than none
}

void HangWatchdog::handle_hang(uint64_t progress) {
  const fs::path claimed = options_.folder / fmt::format("hang_{}", progress);
  const fs::path done = options_.folder / fmt::format("hang_{}.done", progress);
  const std::vector<RankView> views =
      view_ranks(options_.folder.string(), options_.ranks, options_.host);
  note_processes(progress, views);
  // The launcher usually runs on the host of rank 0, so this host's output arrives even if the
  // network is cut: its ranks go first.
  if (views[0].host != options_.host) wait_for_file(claimed, kFirstTicks * tick_);
  is_reporter_ = claim(claimed);
  if (is_reporter_) {
    explain(progress, views);
    claim(done);
  } else if (options_.aborts) {
    wait_for_file(done, kForReport);
  }
  if (!options_.aborts) return;
  recorder_.end(RankEnd::hung, "it waited for others while the run hung (exit code 75)");
  options_.end_process();
}

void HangWatchdog::note_processes(uint64_t progress, const std::vector<RankView>& views) const {
  const auto is_elsewhere = [&](const RankView& view) { return view.host != options_.host; };
  if (std::ranges::none_of(views, is_elsewhere)) return;
  // Several ranks of the host may write it, one over the other.
  const fs::path note = options_.folder / note_name(progress, options_.host);
  const fs::path written = note.string() + fmt::format(".{}", options_.rank);
  std::ofstream(written) << process_report(views, options_.host);
  std::error_code ignored;
  fs::rename(written, note, ignored);
}

std::string HangWatchdog::read_notes(uint64_t progress, const std::vector<RankView>& views) const {
  std::set<std::string> hosts;
  for (const RankView& view : views) {
    if (!view.host.empty() && view.host != options_.host) hosts.insert(view.host);
  }
  std::string text;
  const auto deadline = Clock::now() + kForNotes;
  for (const std::string& host : hosts) {
    const fs::path note = options_.folder / note_name(progress, host);
    wait_for_file(note, deadline - Clock::now());
    std::ifstream file(note);
    const std::string said{std::istreambuf_iterator<char>(file), {}};
    text +=
        fmt::format("host {} {}\n{}", host,
                    said.empty() ? "says nothing: none of its ranks waits, or they are stopped, "
                                   "or the host is down or does not see run.dir"
                                 : "says:",
                    said);
  }
  return text;
}

void HangWatchdog::explain(uint64_t progress, const std::vector<RankView>& views) {
  std::string text =
      hang_report(views, std::chrono::duration<double>(quiet_).count(), now_in_nanoseconds());
  text += read_notes(progress, views);
  text += options_.aborts ? fmt::format("all ranks end with exit code {} (run.on_hang is abort)\n",
                                        static_cast<int>(ExitCode::hang))
                          : "the run waits on (run.on_hang is report)\n";
  options_.print(fmt::format("tessera: rank {}: {}", options_.rank, text));
  write_report(text);
  // These may take seconds, or hang themselves, so they come last.
  for (const int rank : find_culprits(views)) {
    const RankView& view = views[static_cast<size_t>(rank)];
    const bool visible = view.state.can_move() || view.state.kind == ProcessState::Kind::stopped;
    if (!visible) continue;
    if (const auto stacks = read_stacks(view.process)) {
      const std::string of_rank = fmt::format("stacks of {}:\n{}", name_of(view), *stacks);
      write_report(of_rank);
      options_.print(fmt::format("the stacks of rank {} are in {}\n", rank,
                                 (options_.folder / "hang_report.txt").string()));
    }
    break;
  }
}

void HangWatchdog::write_report(const std::string& text) const {
  std::ofstream file(options_.folder / "hang_report.txt", std::ios::app);
  file << text << std::flush;
}

}  // namespace tessera
