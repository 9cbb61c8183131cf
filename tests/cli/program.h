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

  bool timed_out() const { return exit_code == 124; }  // what timeout(1) says then
  size_t count(const std::string& text) const;
};

/// A program that runs in the background for at most a minute, after which it is ended and counts
/// as hung. Its output goes to a file.
class Program {
 public:
  explicit Program(const Arguments& command);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Its processes that are called `name`, in the order of their start.
  std::vector<pid_t> processes(const std::string& name) const;
  std::string output() const;
  /// Waits until the output contains `text`; false if the program ends without that.
  bool wait_for(const std::string& text);
  Outcome wait();

 private:
  bool has_ended();

  std::string command_;
  TestFolder folder_;  ///< for its output, and what it writes for a while
  std::filesystem::path output_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

Outcome run(const Arguments& command);

/// Whether a process ends within some seconds. One that nobody has waited for has ended, too.
bool ends_soon(pid_t process);

/// As a number of ranks: tessera itself, without mpirun.
inline constexpr int kAlone = 0;

/// `tessera ARGUMENTS`, on so many ranks.
Arguments tessera(int ranks, const Arguments& arguments);

/// Expects that the program ended by itself with an error that it says once, and which contains
/// `facts`.
void expect_refused(const Outcome& outcome, const Arguments& facts);

/// Expects exit code 0.
void expect_success(const Outcome& outcome);

}  // namespace tessera::test
