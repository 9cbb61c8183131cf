#include "launch/support/files/staged_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "launch/support/files/file_lock.h"
namespace tessera {
namespace {

/// A name is durable only once its folder is synced. Some file systems cannot sync folders; ignore
/// that.
void sync_parent(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const FileDescriptor folder(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) ::fsync(folder.get());
}

/// Returns whether `path` still names the open file.
bool is_named(int file, const std::string& path) {
  struct stat open = {}, named = {};
  return ::fstat(file, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Opens and locks `staged_path`, then truncates it. The lock ensures that no other writer uses it.
int open_locked(const std::string& path, const std::string& staged_path) {
  while (true) {
    // Somebody else's link at this predictable name must not choose what is overwritten.
    FileDescriptor file(
        ::open(staged_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    require(file.valid() || errno != ELOOP, "{}: is a symbolic link: remove it", staged_path);
    if (!file.valid()) fail("{}: cannot be created: {}", staged_path, system_message(errno));
    // Some network file systems do not support locks. Other writers cannot be excluded there.
    require(try_to_lock(file) != FileLock::of_another,
            "{}: another process is writing it: wait until it ends, or choose another name", path);
    // Otherwise the other writer published or removed the file before we locked it.
    if (!is_named(file.get(), staged_path)) continue;
    if (::ftruncate(file.get(), 0) == 0) return file.release();
    fail("{}: cannot be replaced: {}", staged_path, system_message(errno));
  }
}

}  // namespace

StagedFile::StagedFile(std::string path, Replace replace)
    : path_(std::move(path)),
      replace_((require_replaceable(path_, replace), replace)),
      staged_path_(path_ + ".tmp"),
      lock_(open_locked(path_, staged_path_)),
      file_(::fdopen(::fcntl(lock_.get(), F_DUPFD_CLOEXEC, 0), "wb")) {
  if (file_ == nullptr) fail("{}: cannot be opened: {}", staged_path_, system_message(errno));
}

StagedFile::~StagedFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!published_) ::unlink(staged_path_.c_str());
}

void StagedFile::write(std::span<const std::byte> bytes) {
  require(file_ != nullptr, "{}: was written to after it was closed", staged_path_);
  if (bytes.empty()) return;  // fwrite does not accept a null pointer
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_writing(errno);
}

void StagedFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void StagedFile::truncate(size_t size) {
  require(file_ != nullptr, "{}: was truncated after it was closed", staged_path_);
  const auto end = static_cast<off_t>(size);
  if (std::fflush(file_) != 0 || ::ftruncate(::fileno(file_), end) != 0 ||
      ::fseeko(file_, end, SEEK_SET) != 0) {
    fail_writing(errno);
  }
}

void StagedFile::read(size_t begin, std::span<std::byte> out) {
  require(file_ != nullptr, "{}: was read after it was closed", staged_path_);
  if (std::fflush(file_) != 0) fail_writing(errno);
  while (!out.empty()) {
    const ssize_t count =
        ::pread(::fileno(file_), out.data(), out.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: cannot be read: {}", staged_path_, system_message(errno));
    require(count > 0, "{}: ends at byte {}, but more was written", staged_path_, begin);
    begin += static_cast<size_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
}

void StagedFile::close() {
  require(file_ != nullptr, "{}: was closed twice", staged_path_);
  const bool on_disk = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
  const int error_number = errno;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!on_disk) fail_writing(error_number);
  if (!closed) fail_writing(errno);
}

void StagedFile::remove_older() {
  if (::unlink(path_.c_str()) == 0) {
    sync_parent(path_);
  } else if (errno != ENOENT) {
    fail("{}: cannot be replaced: {}", path_, system_message(errno));
  }
}

void StagedFile::publish() {
  require(file_ == nullptr && !published_, "{}: is published once, after it is closed", path_);
  require_replaceable(path_, replace_);
  if (std::rename(staged_path_.c_str(), path_.c_str()) != 0) {
    fail("{}: cannot be renamed to {}: {}", staged_path_, path_, system_message(errno));
  }
  published_ = true;
  sync_parent(path_);
}

void StagedFile::withdraw() {
  if (std::exchange(published_, false)) ::unlink(path_.c_str());
}

void StagedFile::fail_writing(int error_number) const {
  fail("{}: cannot be written: {}", staged_path_, system_message(error_number));
}

}  // namespace tessera
