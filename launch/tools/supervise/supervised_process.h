#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// Ends a launcher, and with it its ranks. It gets neither a terminal's Ctrl-C nor a scheduler's
/// SIGTERM, after which it would kill the ranks before they can save.
inline constexpr int kEndLauncher = SIGHUP;

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

/// Replaces this process with a command. Throws if that fails.
[[noreturn]] void run_instead(const std::vector<std::string>& command);

/// A command that runs as a child in a process group of its own, with SIGINT and SIGTERM blocked.
/// Its standard error is passed on and its end is kept. Processes that it leaves behind become
/// children of this process, so that none outlives the destructor on this host.
class SupervisedProcess {
 public:
  /// Starts the command with additional environment variables, unless they are set. Throws if that
  /// fails.
  SupervisedProcess(const std::vector<std::string>& command, EnvironmentVariables environment);
  /// Kills all that is left of the command.
  ~SupervisedProcess();
  SupervisedProcess(const SupervisedProcess&) = delete;
  SupervisedProcess& operator=(const SupervisedProcess&) = delete;

  /// Passes standard error on for at most `milliseconds`, or less if a signal arrives. Returns the
  /// exit code once the command has ended: 128 + N for signal N.
  std::optional<int> wait(int milliseconds);

  /// Sends a signal to the command, not to what it has started.
  void signal(int number) const;
  /// Kills the command and everything that it has started on this host.
  void kill_all() const;

  /// The last 256 KiB of standard error.
  const std::string& error_output() const { return error_output_; }

 private:
  void pass_on();

  pid_t pid_ = 0;
  std::optional<FileDescriptor> errors_;  // the pipe
  std::string error_output_;
  std::optional<int> exit_code_;
};

}  // namespace tessera
