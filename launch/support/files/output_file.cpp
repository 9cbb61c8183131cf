#include "launch/support/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launch/support/files/path_error.h"

namespace tessera {

namespace fs = std::filesystem;

OutputFile::OutputFile(fs::path path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) fail_with_errno("create", path_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
    size_ += static_cast<size_t>(written);
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::sync_and_close() {
  if (fsync(file_.get()) != 0) fail_with_errno("sync", path_);
  // Network file systems report some write errors only on close.
  if (close(file_.release()) != 0) fail_with_errno("close", path_);
}

}  // namespace tessera
