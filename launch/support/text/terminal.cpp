#include "launch/support/text/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "core/process_stat.h"
#include "launch/support/files/file_descriptor.h"
#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {
namespace {

/// The file that another process of this user has open, as reported by proc(5).
std::string file_of(pid_t process, int descriptor) {
  return fmt::format("/proc/{}/fd/{}", process, descriptor);
}

/// Returns the parent of a process, or 0 if unknown.
pid_t parent_of(pid_t process) {
  const auto stat = read_process_stat(process);
  return stat ? stat->parent : 0;
}

bool is_terminal(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return file.valid() && ::isatty(file.get()) == 1;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Returns the nearest ancestor whose file for this descriptor differs from ours.
std::optional<pid_t> launcher(int descriptor) {
  struct stat own = {};
  if (::fstat(descriptor, &own) != 0) return std::nullopt;
  for (pid_t process = ::getppid(); process > 0; process = parent_of(process)) {
    struct stat other = {};
    if (::stat(file_of(process, descriptor).c_str(), &other) != 0) return std::nullopt;
    if (!same_file(own, other)) return process;
  }
  return std::nullopt;
}

bool is_watched(int descriptor) {
  if (::isatty(descriptor) != 1) return false;
  if (!launched_by_mpi()) return true;
  const std::optional<pid_t> process = launcher(descriptor);
  return process && is_terminal(file_of(*process, descriptor));
}

}  // namespace

bool stdout_is_watched() { return is_watched(STDOUT_FILENO); }

bool stderr_is_watched() { return is_watched(STDERR_FILENO); }

}  // namespace tessera
