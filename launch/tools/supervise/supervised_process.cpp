#include "launch/tools/supervise/supervised_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "core/process_stat.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 256 * 1024;

/// Many containers forbid Open MPI's copies between processes. Tessera has its own.
const std::pair<std::string, std::string> kNoCopies = {"OMPI_MCA_btl_vader_single_copy_mechanism",
                                                       "none"};

std::optional<pid_t> parse_pid(std::string_view text) {
  pid_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The parent of each process.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> parent_of;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto pid = parse_pid(entry.path().filename().string());
    if (!pid) continue;
    if (const auto stat = read_process_stat(*pid)) parent_of[*pid] = stat->parent;
  }
  return parent_of;
}

/// All processes below this one.
std::vector<pid_t> descendants() {
  const std::map<pid_t, pid_t> parent_of = parents();
  std::vector<pid_t> found = {::getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [pid, parent] : parent_of) {
      if (parent == found[i]) found.push_back(pid);
    }
  }
  found.erase(found.begin());
  return found;
}

void kill_descendants() {
  for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
}

/// Returns why the command cannot be started.
std::string execute(const std::vector<std::string>& command,
                    const EnvironmentVariables& environment) {
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 0);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return command.front() + " cannot be started: " + system_message(errno);
}

[[noreturn]] void become(const std::vector<std::string>& command,
                         const EnvironmentVariables& environment, int errors, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, kEndLauncher);  // if the supervisor is killed
  if (::getppid() != parent) std::_Exit(127);
  ::dup2(errors, STDERR_FILENO);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE, SIGXFSZ})
    std::signal(number, SIG_DFL);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM}) sigaddset(&blocked, number);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  const std::string problem = "error: " + execute(command, environment) + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, problem.data(), problem.size());
  std::_Exit(64);  // ExitCode::usage
}

}  // namespace

void run_instead(const std::vector<std::string>& command) {
  fail("{}", execute(command, {kNoCopies}));
}

SupervisedProcess::SupervisedProcess(const std::vector<std::string>& command,
                                     EnvironmentVariables environment) {
  environment.push_back(kNoCopies);
  const bool adopts = ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
  require(adopts, "supervise cannot adopt processes: {}", system_message(errno));
  std::array<int, 2> ends = {};
  const bool has_pipe = ::pipe2(ends.data(), O_CLOEXEC) == 0;
  require(has_pipe, "a pipe cannot be made: {}", system_message(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(command, environment, ends[1], parent);
  ::close(ends[1]);
  errors_.emplace(ends[0]);
  require(pid_ > 0, "a process cannot be started: {}", system_message(errno));
}

SupervisedProcess::~SupervisedProcess() {
  // Killed processes leave their children to this one, so one pass may not be enough.
  for (int pass = 0; pass < 100; ++pass) {
    kill_descendants();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (descendants().empty()) return;
    ::usleep(20'000);
  }
}

std::optional<int> SupervisedProcess::wait(int milliseconds) {
  if (exit_code_) return exit_code_;
  pollfd waits = {errors_->get(), POLLIN, 0};
  const int ready = ::poll(&waits, 1, milliseconds);
  pass_on();
  // All writers have closed the pipe, but the command has not ended yet.
  if (ready > 0 && (waits.revents & POLLIN) == 0) ::usleep(10'000);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended != pid_) continue;  // an adopted process
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  if (exit_code_) pass_on();
  return exit_code_;
}

void SupervisedProcess::pass_on() {
  std::array<char, 16384> buffer = {};
  ssize_t count = 0;
  while ((count = ::read(errors_->get(), buffer.data(), buffer.size())) > 0) {
    const auto size = static_cast<size_t>(count);
    error_output_.append(buffer.data(), size);
    write_as_is(STDERR_FILENO, {buffer.data(), size});
  }
  if (error_output_.size() > kKept) error_output_.erase(0, error_output_.size() - kKept);
}

void SupervisedProcess::signal(int number) const {
  if (!exit_code_) ::kill(pid_, number);
}

void SupervisedProcess::kill_all() const { kill_descendants(); }

}  // namespace tessera
