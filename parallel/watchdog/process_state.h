#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// The system's view of a process of this host.
struct ProcessState {
  enum class Kind : uint8_t {
    unknown,   ///< it is on another host or in another container
    gone,      ///< there is no such process any more
    zombie,    ///< it has ended, and its parent has not asked for the exit code
    stopped,   ///< by a signal or a debugger
    blocked,   ///< in the system, as for a disk: no signal wakes it
    sleeping,  ///< it waits
    running,   ///< it computes, or would if a core were free
  };

  struct Thread {
    int id = 0;
    std::string name;
    char state = '?';         ///< of /proc/PID/stat
    std::string system_call;  ///< its number, or ""
    std::string kernel;       ///< where it is in the kernel, or ""
  };

  Kind kind = Kind::unknown;
  char letter = '?';            ///< state of /proc/PID/stat
  int64_t swapped_kib = 0;      ///< memory that is swapped out
  std::vector<Thread> threads;  ///< at most 32

  bool can_move() const { return kind == Kind::running || kind == Kind::sleeping; }
};

/// "is stopped (state T)".
std::string to_string(const ProcessState& state);

/// Asks /proc about a process. `start` is that of ProcessStat, and `pid_namespace` that of the
/// process, so that a process that has its PID now is not mistaken for it.
ProcessState read_process_state(int process, uint64_t start, uint64_t pid_namespace);

/// The stacks of a process, from eu-stack or gdb if one is installed, may attach and ends within
/// some seconds; otherwise nullopt.
std::optional<std::string> read_stacks(int process);

}  // namespace tessera
