#include "launch/support/files/small_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "launch/support/files/file_descriptor.h"

namespace tessera {
namespace {

/// Reads until the end, or until there are more than `most_bytes`. Returns an error number.
int read_up_to(int file, size_t most_bytes, std::string& text) {
  using namespace std::chrono_literals;
  struct stat status = {};
  if (::fstat(file, &status) != 0) return errno;
  auto patience = S_ISFIFO(status.st_mode) ? 1000ms : 0ms;
  while (text.size() <= most_bytes) {
    const size_t begin = text.size();
    text.resize(begin + std::min(most_bytes + 1 - begin, size_t{1} << 16));
    const ssize_t count = ::read(file, text.data() + begin, text.size() - begin);
    const int error = errno;
    text.resize(begin + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && error == EAGAIN) {
      pollfd ready{file, POLLIN, 0};
      ::poll(&ready, 1, -1);
    } else if (count < 0 && error != EINTR) {
      return error;
    } else if (count == 0) {
      if (!text.empty() || patience <= 0ms) return 0;
      std::this_thread::sleep_for(50ms);  // a pipe may get its first writer
      patience -= 50ms;
    }
  }
  return 0;
}

FileDescriptor open_without_waiting(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace

std::string read_small_file(const std::string& path, size_t most_bytes) {
  const FileDescriptor file = open_without_waiting(path);
  require(file.valid(), "{}: cannot be opened: {}", path, system_message(errno));
  std::string text;
  const int error = read_up_to(file.get(), most_bytes, text);
  require(error == 0, "{}: cannot be read: {}", path, system_message(error));
  require(text.size() <= most_bytes, "{}: has more than {} bytes, the most that are allowed", path,
          most_bytes);
  refuse_lfs_pointer(path, text);
  return text;
}

void refuse_lfs_pointer(const std::string& path, std::string_view text) {
  constexpr size_t kMostOfPointer = 1024;
  require(
      text.size() > kMostOfPointer || !text.starts_with("version https://git-lfs.github.com/spec/"),
      "{}: is a pointer of Git LFS, not the file itself: download it with `git lfs pull`", path);
}

std::string begin_of_file(const std::string& path, size_t most_bytes) {
  const FileDescriptor file = open_without_waiting(path);
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text;
  read_up_to(file.get(), most_bytes, text);
  return text.substr(0, most_bytes);
}

}  // namespace tessera
