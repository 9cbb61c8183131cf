#include "launch/support/files/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"

namespace tessera {
namespace {

int open_to_append(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe without a reader is an error, not a wait.
  const int file =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  require(file >= 0, "{} cannot be written: {}", path.string(), system_message(errno));
  return file;
}

}  // namespace

AppendedFile::AppendedFile(const std::filesystem::path& path)
    : file_(open_to_append(path)), written_(::lseek(file_.get(), 0, SEEK_END)) {}

void AppendedFile::append(std::string_view record) {
  waiting_ += record;
  problem();
}

std::optional<std::string> AppendedFile::problem() {
  for (std::string_view rest = waiting_; !rest.empty();) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::string why = system_message(errno);
      // Leaves no part of a record, which would be written twice.
      if (::ftruncate(file_.get(), written_) != 0) return why + "; its last record is damaged";
      return why;
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  written_ += static_cast<off_t>(waiting_.size());
  waiting_.clear();
  return std::nullopt;
}

}  // namespace tessera
