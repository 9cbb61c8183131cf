#include "launch/support/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/file_descriptor.h"

namespace tessera {
namespace {

/// A mapped file as a signal handler may read it: it neither locks nor allocates.
struct KnownFile {
  std::atomic<const std::byte*> begin = nullptr;  ///< nullptr: none, or not yet whole
  size_t size = 0;
  char path[1024] = {};
};

constexpr size_t kMostKnown = 1024;
std::mutex known_mutex;  // of those who change `known`
std::array<KnownFile, kMostKnown> known;
char known_who[64] = {};

/// A line of text that needs no memory of its own.
class SignalLine {
 public:
  SignalLine& operator<<(const char* text) {
    for (; *text != '\0' && size_ + 1 < sizeof(text_); ++text) {
      // As for_terminal() does, but without escapes: names of files may have any bytes.
      const auto byte = static_cast<unsigned char>(*text);
      text_[size_++] = byte < 0x20 || byte == 0x7f ? '?' : *text;
    }
    return *this;
  }
  SignalLine& operator<<(size_t number) {
    char digits[24] = {};
    char* first = digits + sizeof(digits) - 1;
    do {
      *--first = static_cast<char>('0' + number % 10);
    } while ((number /= 10) > 0);
    return *this << first;
  }
  void print() {
    text_[size_++] = '\n';
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, size_);
  }

 private:
  char text_[1400] = {};
  size_t size_ = 0;
};

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const KnownFile& file : known) {
    const std::byte* begin = file.begin.load(std::memory_order_acquire);
    if (begin == nullptr || address < begin || address >= begin + file.size) continue;
    SignalLine line;
    line << known_who << file.path;
    struct stat status = {};
    const bool is_there = ::stat(file.path, &status) == 0;
    if (is_there && static_cast<size_t>(status.st_size) < file.size) {
      line << ": has " << static_cast<size_t>(status.st_size) << " bytes, but had " << file.size
           << " when it was opened: restore it, and write files anew instead of changing them";
    } else {
      line << ": byte " << static_cast<size_t>(address - begin)
           << " cannot be read: it was truncated for a while, or its disk has failed";
    }
    line.print();
    ::_exit(static_cast<int>(ExitCode::data));
  }
  ::signal(signal, SIG_DFL);  // not ours: the read is repeated, and ends the program
}

}  // namespace

int MappedFile::enter(const std::string& path, std::span<const std::byte> bytes) {
  const std::lock_guard lock(known_mutex);
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].begin.load() != nullptr) continue;
    known[i].size = bytes.size();
    known[i].path[path.copy(known[i].path, sizeof(known[i].path) - 1)] = '\0';
    known[i].begin.store(bytes.data(), std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void MappedFile::leave(int place) {
  if (place < 0) return;
  const std::lock_guard lock(known_mutex);
  known[static_cast<size_t>(place)].begin.store(nullptr);
}

void explain_bus_errors(std::string_view who) {
  known_who[who.copy(known_who, sizeof(known_who) - 1)] = '\0';
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

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
  place_ = enter(path_, bytes_);
}

MappedFile::~MappedFile() {
  leave(place_);
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
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
      place_(std::exchange(other.place_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
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
