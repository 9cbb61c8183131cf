#include "launch/support/text/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>

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

FileDescriptor open_terminal(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
}

bool is_terminal(const std::string& path) {
  const FileDescriptor file = open_terminal(path);
  return file.valid() && ::isatty(file.get()) == 1;
}

std::optional<size_t> width_of(int terminal) {
  struct winsize size = {};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

size_t count_columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
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

std::optional<size_t> terminal_width(int descriptor) {
  if (const auto own = width_of(descriptor)) return own;
  const std::optional<pid_t> process = launcher(descriptor);
  if (!process) return std::nullopt;
  const FileDescriptor file = open_terminal(file_of(*process, descriptor));
  return file.valid() ? width_of(file.get()) : std::nullopt;
}

std::string first_columns(const std::string& text, size_t most) {
  size_t end = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && count_columns(text.substr(i, 1)) == 0)
      continue;  // inside of a character
    end = i;
    if (most-- == 0) break;
  }
  return text.substr(0, end);
}

std::string in_columns(const std::vector<std::string>& fields, size_t width) {
  std::string text, line;
  for (const std::string& field : fields) {
    if (!line.empty() && count_columns(line) + 2 + count_columns(field) > width) {
      text += line + "\n";
      line = "  ";
    }
    line += (line.empty() ? "" : "  ") + field;
  }
  return text + line;
}

std::string wrapped(const std::string& text, size_t width) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()) + 2, ' ');
    while (count_columns(line) > width) {
      const size_t end = first_columns(line, width + 1).rfind(' ');
      if (end == std::string::npos || end < indent.size()) break;  // one long word
      result += line.substr(0, end) + "\n";
      line.replace(0, end + 1, indent);
    }
    result += line + "\n";
  }
  if (!result.empty()) result.pop_back();
  return result;
}

}  // namespace tessera
