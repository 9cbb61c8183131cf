#include "launch/support/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/file_descriptor.h"
#include "launch/support/files/small_file.h"

namespace tessera {
MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe by mistake must fail, not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) fail("{}: cannot be opened: {}", path, system_message(errno));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) {
    fail("{}: cannot be examined: {}", path, system_message(errno));
  }
  require(!S_ISDIR(status.st_mode), "{}: is a directory, but a file is needed", path);
  require(S_ISREG(status.st_mode), "{}: is not a regular file, so it cannot be mapped", path);
  const size_t size = narrow<size_t>(status.st_size);
  if (size == 0) return;  // mmap rejects a length of 0
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    fail("{}: its {} bytes cannot be mapped: {}", path, size, system_message(errno));
  }
  bytes_ = {static_cast<const std::byte*>(data), size};
  known_ = KnownMapping(path_, file.get(), bytes_);
  try {
    refuse_lfs_pointer(path, text());
  } catch (const Error&) {
    unmap();
    throw;
  }
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  known_ = KnownMapping();  // another mapping may soon be at this place
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  bytes_ = {};
}

void MappedFile::will_read(size_t begin, size_t count) const {
  static const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = begin / page * page;  // the mapping starts at a page boundary
  // Only a hint: an error just makes later reads slower.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, begin + count - first, MADV_WILLNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      known_(std::move(other.known_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(known_, other.known_);
  return *this;
}

std::string sampled_checksum(const MappedFile& file) {
  constexpr size_t kBlock = 4096, kBlocks = 64;
  const std::span<const std::byte> bytes = file.bytes();
  const size_t size = bytes.size();
  Checksum checksum;
  checksum.update(std::as_bytes(std::span(&size, 1)));
  if (size <= kBlock * kBlocks) {
    checksum.update(bytes);
    return checksum.text();
  }
  const double stride = static_cast<double>(size - kBlock) / static_cast<double>(kBlocks - 1);
  for (size_t i = 0; i < kBlocks; ++i) {
    const auto begin = static_cast<size_t>(stride * static_cast<double>(i));
    checksum.update(bytes.subspan(std::min(begin, size - kBlock), kBlock));
  }
  return checksum.text();
}

}  // namespace tessera
