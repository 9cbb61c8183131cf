#include "launch/files/file_pieces.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "launch/files/file_descriptor.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Why a file can not be read, or nothing.
std::string find_problem(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return system_message(errno);
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? "is a directory" : "";
}

}  // namespace

void for_each_piece(const std::string& path, const std::function<void(std::string_view)>& body) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail("{}: can not be opened: {}", path, system_message(errno));
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("{}: can not be read: {}", path, system_message(errno));
    if (count == 0) return;
    body({piece.data(), static_cast<size_t>(count)});
  }
}

void check_readable(const std::vector<std::string>& paths, std::string_view who) {
  constexpr size_t kShown = 20;
  require(!paths.empty(), "{}: there is no input: name at least one text file", who);
  std::vector<std::string> problems;
  size_t count = 0;
  for (const std::string& path : paths) {
    const std::string problem = find_problem(path);
    if (problem.empty()) continue;
    if (++count <= kShown) problems.push_back(fmt::format("{}: {}", path, problem));
  }
  if (count > kShown) problems.push_back(fmt::format("and {} more", count - kShown));
  require(count == 0, "{}: {} of {} inputs can not be read:\n  {}", who, count, paths.size(),
          fmt::join(problems, "\n  "));
}

}  // namespace tessera
