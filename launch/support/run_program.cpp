#include "launch/support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "core/error.h"
#include "launch/support/files/file_descriptor.h"

namespace tessera {
namespace {

constexpr size_t kMostOutput = size_t{16} << 20;

using Clock = std::chrono::steady_clock;

/// A started program. Ends it on destruction, unless it was waited for.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  /// Returns the status of waitpid(2).
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_;
};

/// Starts the program with `end` as standard input and output. Returns an error number.
int start(const std::vector<std::string>& words, int end, pid_t& pid) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;  // the program ends by signals that this one ignores
  posix_spawnattr_init(&attributes);
  sigset_t ignored;
  sigemptyset(&ignored);
  sigaddset(&ignored, SIGPIPE);
  sigaddset(&ignored, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &ignored);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error =
      ::posix_spawnp(&pid, arguments.front(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Waits until the socket is ready, and throws when the time is over.
void wait_for(int fd, short events, Clock::time_point deadline, const std::string& name) {
  pollfd ready{fd, events, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const int found = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left)));
  require(found != 0, "{} is not done in time and was ended", name);
}

}  // namespace

std::optional<std::string> run_program(const std::vector<std::string>& words,
                                       const std::string& input, std::chrono::seconds limit) {
  const std::string& name = words.front();
  const Clock::time_point deadline = Clock::now() + limit;
  int ends[2];
  const int failed = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  require(failed == 0, "{} cannot be started: {}", name, system_message(errno));
  const FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  pid_t pid = 0;
  const int error = start(words, theirs.get(), pid);
  if (error == ENOENT) return std::nullopt;
  require(error == 0, "{} cannot be started: {}", name, system_message(error));
  Child child(pid);
  theirs = FileDescriptor(-1);  // so that the end of its output is seen

  for (std::string_view rest = input; !rest.empty();) {
    wait_for(ours.get(), POLLOUT, deadline, name);
    const ssize_t sent = ::send(ours.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) break;  // it has ended, perhaps with an answer
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  ::shutdown(ours.get(), SHUT_WR);
  std::string output;
  std::array<char, 4096> buffer;
  while (true) {
    wait_for(ours.get(), POLLIN, deadline, name);
    const ssize_t got = ::recv(ours.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(buffer.data(), static_cast<size_t>(got));
    require(output.size() <= kMostOutput, "{} writes more than {} bytes", name, kMostOutput);
  }
  const int status = child.wait();
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "{} failed: {}", name,
          WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                            : fmt::format("signal {}", WTERMSIG(status)));
  return output;
}

}  // namespace tessera
