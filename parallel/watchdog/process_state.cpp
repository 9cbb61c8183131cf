#include "parallel/watchdog/process_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/process_stat.h"
#include "core/trace/flight_recorder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostThreads = 32;

std::string read_proc(const fs::path& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  return text;
}

ProcessState::Kind kind_of(char letter) {
  switch (letter) {
    case 'R':
      return ProcessState::Kind::running;
    case 'D':
      return ProcessState::Kind::blocked;
    case 'T':
    case 't':
      return ProcessState::Kind::stopped;
    case 'Z':
      return ProcessState::Kind::zombie;
    case 'X':
    case 'x':
      return ProcessState::Kind::gone;
    default:
      return ProcessState::Kind::sleeping;
  }
}

/// The function at the top of /proc/PID/task/TID/stack, which only root may read, or wchan.
std::string kernel_place(const fs::path& task) {
  std::string stack = read_proc(task / "stack");
  std::string place;
  for (size_t at = 0, lines = 0; at < stack.size() && lines < 3; ++lines) {
    const size_t end = std::min(stack.find('\n', at), stack.size());
    const std::string line = stack.substr(at, end - at);
    const size_t name = line.find("] "), plus = line.find('+');
    if (name != std::string::npos) {
      place += (place.empty() ? "" : " < ") + line.substr(name + 2, plus - name - 2);
    }
    at = end + 1;
  }
  if (!place.empty()) return place;
  const std::string wchan = read_proc(task / "wchan");
  return wchan == "0" ? "" : wchan;
}

std::vector<ProcessState::Thread> threads_of(const fs::path& process) {
  std::vector<ProcessState::Thread> threads;
  std::error_code error;
  for (auto task = fs::directory_iterator(process / "task", error);
       !error && task != fs::directory_iterator() && threads.size() < kMostThreads;
       task.increment(error)) {
    const fs::path folder = task->path();
    const auto stat = read_process_stat(folder);
    if (!stat) continue;
    const std::string call = read_proc(folder / "syscall");
    const bool is_number = !call.empty() && std::isdigit(static_cast<unsigned char>(call[0])) != 0;
    threads.push_back({std::atoi(folder.filename().c_str()), read_proc(folder / "comm"),
                       stat->state, is_number ? call.substr(0, call.find(' ')) : "",
                       kernel_place(folder)});
  }
  std::ranges::sort(threads, {}, &ProcessState::Thread::id);
  return threads;
}

int64_t swapped_of(const fs::path& process) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmSwap:")) return std::atoll(line.c_str() + 7);
  }
  return 0;
}

/// Runs a program for at most `limit` and returns what it prints; "" if it fails.
std::string output_of(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  bool whole = false;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (error == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready = {ends[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
    std::array<char, 4096> piece = {};
    const ssize_t count = ::read(ends[0], piece.data(), piece.size());
    if (count <= 0) {
      whole = count == 0;
      break;
    }
    text.append(piece.data(), static_cast<size_t>(count));
  }
  ::close(ends[0]);
  if (error != 0) return "";
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "";
}

}  // namespace

std::string to_string(const ProcessState& state) {
  using enum ProcessState::Kind;
  std::string text;
  switch (state.kind) {
    case unknown:
      return "cannot be seen from here";
    case gone:
      return "is gone";
    case zombie:
      text = "has ended";
      break;
    case stopped:
      text = "is stopped";
      break;
    case blocked:
      text = "is blocked in the system";
      break;
    case sleeping:
      text = "sleeps";
      break;
    case running:
      text = "runs";
      break;
  }
  text += fmt::format(" (state {})", state.letter);
  if (state.swapped_kib > 0) {
    text += fmt::format(", {:.1f} MiB swapped out", static_cast<double>(state.swapped_kib) / 1024);
  }
  return text;
}

ProcessState read_process_state(int process, uint64_t start, uint64_t pid_namespace) {
  ProcessState state;
  if (pid_namespace != own_pid_namespace()) return state;
  const fs::path folder = fmt::format("/proc/{}", process);
  const auto stat = read_process_stat(folder);
  if (!stat || stat->start != start) {
    state.kind = ProcessState::Kind::gone;
    return state;
  }
  state.letter = stat->state;
  state.kind = kind_of(stat->state);
  state.threads = threads_of(folder);
  // A process runs if any of its threads does; its own state is that of the first.
  const auto runs = [](const ProcessState::Thread& thread) { return thread.state == 'R'; };
  if (state.kind == ProcessState::Kind::sleeping && std::ranges::any_of(state.threads, runs)) {
    state.kind = ProcessState::Kind::running;
    state.letter = 'R';
  }
  state.swapped_kib = swapped_of(folder);
  return state;
}

std::optional<std::string> read_stacks(int process) {
  // The debugger would stop this process, which could then not read what it prints.
  if (process == getpid()) return std::nullopt;
  constexpr std::chrono::seconds kLimit{8};
  const std::string pid = std::to_string(process);
  std::string text = output_of({"eu-stack", "-n", "24", "-p", pid}, kLimit);
  if (text.empty()) {
    text = output_of({"gdb", "-nx", "-batch", "-ex", "thread apply all backtrace 24", "-p", pid},
                     kLimit);
  }
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace tessera
