#include "launch/files/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "launch/files/file_descriptor.h"

namespace tessera {
namespace {

/// A rename is on disk only when its folder is. Some file systems can not sync a folder; there,
/// nothing more can be done.
void sync_parent(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const FileDescriptor folder(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) ::fsync(folder.get());
}

}  // namespace

StagedFile::StagedFile(std::string path)
    : path_(std::move(path)),
      staged_path_(path_ + ".tmp"),
      file_(std::fopen(staged_path_.c_str(), "wbe")) {
  if (file_ == nullptr) fail("{}: can not be created: {}", staged_path_, system_message(errno));
}

StagedFile::~StagedFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!published_) ::unlink(staged_path_.c_str());
}

void StagedFile::write(std::span<const std::byte> bytes) {
  require(file_ != nullptr, "{}: was written to after it was closed", staged_path_);
  if (bytes.empty()) return;  // fwrite takes no null pointer, even for nothing
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_writing(errno);
}

void StagedFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void StagedFile::close() {
  require(file_ != nullptr, "{}: was closed twice", staged_path_);
  const bool on_disk = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
  const int error_number = errno;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!on_disk) fail_writing(error_number);
  if (!closed) fail_writing(errno);
}

void StagedFile::publish() {
  require(file_ == nullptr && !published_, "{}: is published once, after it is closed", path_);
  if (std::rename(staged_path_.c_str(), path_.c_str()) != 0) {
    fail("{}: can not be renamed to {}: {}", staged_path_, path_, system_message(errno));
  }
  published_ = true;
  sync_parent(path_);
}

void StagedFile::fail_writing(int error_number) const {
  fail("{}: can not be written: {}", staged_path_, system_message(error_number));
}

}  // namespace tessera
