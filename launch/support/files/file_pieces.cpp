#include "launch/support/files/file_pieces.h"

#include <fmt/ranges.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "launch/support/files/replace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Returns why a file cannot be read, or nullopt.
std::optional<std::string> find_problem(const std::string& path) {
  if (path == kStdin) return std::nullopt;
  if (::access(path.c_str(), R_OK) != 0) return system_message(errno);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::nullopt;
  return fmt::format("is a directory: name its files, as '{}'", (fs::path(path) / "*").string());
}

/// The name of an existing file is never a pattern, even if it contains such characters.
bool is_pattern(const std::string& path) {
  std::error_code ignored;
  return path.find_first_of("*?[") != std::string::npos && !fs::exists(path, ignored);
}

/// Appends the files that match a pattern; returns the problem, or nullopt.
std::optional<std::string> append_matches(const std::string& pattern,
                                          std::vector<std::string>& paths) {
  glob_t found = {};
  // Without GLOB_ERR, files in an unreadable folder would be silently skipped.
  const int code = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const int reason = errno;
  const auto begin = static_cast<std::ptrdiff_t>(paths.size());
  if (code == 0) paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(paths.begin() + begin, paths.end());
  if (code == GLOB_NOMATCH) return "matches no file";
  if (code == GLOB_ABORTED) return "a folder cannot be read: " + system_message(reason);
  if (code != 0) return "not enough memory to list its files";
  return std::nullopt;
}

/// Collects problems with inputs; a message shows the first few.
class InputErrors {
 public:
  void add(const std::string& input, const std::optional<std::string>& problem) {
    if (problem && ++count_ <= kShown) lines_.push_back(fmt::format("{}: {}", input, *problem));
  }

  void check(std::string_view who, size_t inputs) {
    if (count_ > kShown) lines_.push_back(fmt::format("and {} more", count_ - kShown));
    require(count_ == 0, "{}: {} of {} inputs cannot be read:\n  {}", who, count_, inputs,
            fmt::join(lines_, "\n  "));
  }

 private:
  static constexpr size_t kShown = 20;
  std::vector<std::string> lines_;
  size_t count_ = 0;
};

}  // namespace

void for_each_piece(const std::string& path, const std::function<void(std::string_view)>& body) {
  PieceReader reader(path);
  while (true) {
    const std::string_view piece = reader.next();
    if (piece.empty()) return;
    body(piece);
  }
}

void check_readable(const std::vector<std::string>& paths, std::string_view who) {
  require(!paths.empty(), "{}: no input given: name at least one text file", who);
  InputErrors problems;
  for (const std::string& path : paths) problems.add(path, find_problem(path));
  problems.check(who, paths.size());
  for (const std::string& path : paths) remember_input(path == kStdin ? "/dev/stdin" : path);
  require(std::count(paths.begin(), paths.end(), kStdin) <= 1,
          "{}: standard input, \"-\", is given twice, but can be read only once", who);
}

std::vector<std::string> find_inputs(const std::vector<std::string>& patterns,
                                     std::string_view who) {
  std::vector<std::string> paths;
  InputErrors problems;
  for (const std::string& pattern : patterns) {
    if (is_pattern(pattern)) {
      problems.add(pattern, append_matches(pattern, paths));
    } else {
      problems.add(pattern, find_problem(pattern));
      paths.push_back(pattern);
    }
  }
  problems.check(who, patterns.size());
  check_readable(paths, who);
  return paths;
}

}  // namespace tessera
