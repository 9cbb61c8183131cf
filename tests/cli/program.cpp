#include "tests/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "core/error.h"

namespace tessera::test {

namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void become(const Arguments& command, const fs::path& folder, const fs::path& output) {
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  // Threads that wait for each other are slow when ranks and other programs share few cores.
  ::setenv("OMP_NUM_THREADS", "1", /*overwrite=*/1);
  // Several mpirun that create their folders in one place at the same moment sometimes fail.
  ::setenv("TMPDIR", folder.c_str(), /*overwrite=*/1);
  // MPI libraries keep memory until the process ends. That is not a leak of Tessera's.
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", /*overwrite=*/0);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  std::_Exit(127);
}

struct Process {
  pid_t pid = 0, parent = 0;
  std::string name;
  char state = 'X';
};

/// "pid (name) state parent ..." in proc(5).
Process read_process(const fs::path& folder) {
  const std::string line = read_text(folder / "stat");
  const size_t begin = line.find('('), end = line.rfind(')');
  if (begin == std::string::npos || end + 4 >= line.size()) return {};
  Process process;
  process.pid = static_cast<pid_t>(std::atoi(line.c_str()));
  process.name = line.substr(begin + 1, end - begin - 1);
  process.state = line[end + 2];
  process.parent = static_cast<pid_t>(std::atoi(line.c_str() + end + 4));
  return process;
}

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (std::isdigit(entry.path().filename().string().front()) == 0) continue;
    const Process process = read_process(entry.path());
    if (process.pid != 0) processes.push_back(process);
  }
  return processes;
}

void add_descendants(pid_t parent, const std::vector<Process>& all, std::vector<Process>& found) {
  for (const Process& process : all) {
    if (process.parent != parent) continue;
    found.push_back(process);
    add_descendants(process.pid, all, found);
  }
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

size_t Outcome::count(const std::string& text) const {
  size_t times = 0;
  for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1)) {
    ++times;
  }
  return times;
}

Program::Program(const Arguments& command)
    : command_(fmt::format("{}", fmt::join(command, " "))), output_(folder_ / "output.txt") {
  Arguments limited = {"timeout", "--kill-after=5", "60"};
  limited.insert(limited.end(), command.begin(), command.end());
  pid_ = ::fork();
  require(pid_ >= 0, "fork failed");
  if (pid_ == 0) become(limited, folder_.path(), output_);
}

Program::~Program() {
  if (!has_ended()) {
    ::kill(pid_, SIGTERM);  // timeout(1) forwards it
    wait();
  }
}

bool Program::has_ended() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

std::vector<pid_t> Program::processes(const std::string& name) const {
  std::vector<Process> descendants;
  add_descendants(pid_, all_processes(), descendants);
  std::vector<pid_t> pids;
  for (const Process& process : descendants) {
    if (process.name == name) pids.push_back(process.pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

std::string Program::output() const { return read_text(output_); }

bool Program::wait_for(const std::string& text) {
  while (true) {
    const bool ended = has_ended();
    if (output().find(text) != std::string::npos) return true;
    if (ended) return false;
    pause();
  }
}

Outcome Program::wait() {
  while (!has_ended()) pause();
  const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  return {command_, code, output()};
}

Outcome run(const Arguments& command) { return Program(command).wait(); }

bool ends_soon(pid_t process) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    const char state = read_process(fmt::format("/proc/{}", process)).state;
    if (state == 'Z' || state == 'X') return true;
    pause();
  }
  return false;
}

Arguments tessera(int ranks, const Arguments& arguments) {
  Arguments command;
  if (ranks != kAlone) {
    std::istringstream words(TESSERA_MPIRUN);
    command.assign(std::istream_iterator<std::string>(words), {});
    command.push_back(std::to_string(ranks));
  }
  command.emplace_back(TESSERA_BINARY);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

void expect_refused(const Outcome& outcome, const Arguments& facts) {
  SCOPED_TRACE(outcome.command + "\n" + outcome.output);
  EXPECT_FALSE(outcome.timed_out()) << "it hung";
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(outcome.count("error: "), 1u);
  EXPECT_EQ(outcome.count("MPI_ABORT"), 0u) << "the ranks did not shut down in order";
  for (const std::string& fact : facts) {
    EXPECT_GE(outcome.count(fact), 1u) << "the output lacks \"" << fact << "\"";
  }
}

void expect_stopped(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 99) << outcome.command << "\n" << outcome.output;
}

void expect_success(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.command << "\n" << outcome.output;
}

}  // namespace tessera::test
