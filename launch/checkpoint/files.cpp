#include "launch/checkpoint/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_with_errno(const char* verb, const fs::path& path) {
  const int reason = errno;
  fail("can not {} {}: {}", verb, path.string(), std::generic_category().message(reason));
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

int FileDescriptor::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

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
  // Network file systems report some write errors only here.
  if (close(file_.release()) != 0) fail_with_errno("close", path_);
}

MappedFile::MappedFile(const fs::path& path) {
  // Without O_NONBLOCK a named pipe in the place of the file would block for ever.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) fail_with_errno("open", path);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) fail_with_errno("read", path);
  require(S_ISREG(info.st_mode), "{} is not a regular file", path.string());
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return;
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_with_errno("map", path);
  madvise(data, size, MADV_SEQUENTIAL);
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (bytes_.data() != nullptr) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void sync_folder(const fs::path& folder) {
  const FileDescriptor file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) fail_with_errno("open", folder);
  if (fsync(file.get()) != 0) fail_with_errno("sync", folder);
}

void make_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  make_folders(folder.parent_path());
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail_with_errno("create", folder);
  sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require(!error, "can not rename {} to {}: {}", from.string(), to.string(), error.message());
}

bool exchange_paths(const fs::path& a, const fs::path& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace tessera
