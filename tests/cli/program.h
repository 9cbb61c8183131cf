#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace tessera::test {

using Arguments = std::vector<std::string>;

/// How a program ended.
struct Outcome {
  std::string command;
  int exit_code = 0;
  std::string output;  ///< standard output and standard error together

  bool timed_out() const { return exit_code == 124; }  // the exit code of timeout(1)
  size_t count(const std::string& text) const;
};

/// A program that runs in the background. After a minute it is terminated and counts as hung. Its
/// output goes to a file.
class Program {
 public:
  explicit Program(const Arguments& command);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Its processes with this name, in the order in which they started.
  std::vector<pid_t> processes(const std::string& name) const;
  std::string output() const;
  /// Waits until the output contains `text`. Returns false if the program ends before that.
  bool wait_for(const std::string& text);
  bool is_running() { return !has_ended(); }
  Outcome wait();

 private:
  bool has_ended();

  std::string command_;
  TestFolder folder_;  ///< for its output and its temporary files
  std::filesystem::path output_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

Outcome run(const Arguments& command);

/// Returns whether a process ends within 10 seconds. A zombie counts as ended.
bool ends_soon(pid_t process);

/// Instead of a number of ranks: runs tessera itself, without mpirun.
inline constexpr int kAlone = 0;

/// The command line of `tessera ARGUMENTS` on `ranks` ranks.
Arguments tessera(int ranks, const Arguments& arguments);

/// Expects that the program ended by itself and printed one error, which contains all `facts`.
void expect_refused(const Outcome& outcome, const Arguments& facts);

/// Expects the exit code of a run that has saved and ended after a signal.
void expect_stopped(const Outcome& outcome);

/// Expects exit code 0.
void expect_success(const Outcome& outcome);

}  // namespace tessera::test
