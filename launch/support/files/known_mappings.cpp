#include "launch/support/files/known_mappings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

#include "core/error.h"
#include "core/exit_code.h"

namespace tessera {
namespace {

/// A mapping as a signal handler may read it: it neither locks nor allocates.
struct Mapping {
  std::atomic<const std::byte*> begin = nullptr;  ///< nullptr: none, or not yet whole
  size_t size = 0;
  dev_t device = 0;
  ino_t inode = 0;
  char path[1024] = {};
};

std::mutex table_mutex;  // of those who change the table
std::array<Mapping, 1024> table;
char who_it_is[64] = {};
constexpr const char* kAdvice = "restore it, and replace files instead of changing them in place";

/// A line of text that needs no memory of its own.
class SignalLine {
 public:
  SignalLine& operator<<(const char* text) {
    for (; *text != '\0' && size_ + 1 < sizeof(text_); ++text) {
      // The name of a file must not drive a terminal, and only ASCII is simple enough here.
      text_[size_++] = *text < 0x20 || *text == 0x7f ? '?' : *text;
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
  for (const Mapping& file : table) {
    const std::byte* begin = file.begin.load(std::memory_order_acquire);
    if (begin == nullptr || address < begin || address >= begin + file.size) continue;
    SignalLine line;
    line << who_it_is << file.path;
    struct stat status = {};
    const bool is_there = ::stat(file.path, &status) == 0;
    if (is_there && static_cast<size_t>(status.st_size) < file.size) {
      line << ": has " << static_cast<size_t>(status.st_size) << " bytes, but had " << file.size
           << " when it was opened: " << kAdvice;
    } else {
      line << ": byte " << static_cast<size_t>(address - begin)
           << " cannot be read: the file was truncated for a while, or its disk has failed";
    }
    line.print();
    ::_exit(static_cast<int>(ExitCode::data));
  }
  ::signal(signal, SIG_DFL);  // no known mapping: the read is repeated, and ends the program
}

}  // namespace

void explain_bus_errors(std::string_view who) {
  who_it_is[who.copy(who_it_is, sizeof(who_it_is) - 1)] = '\0';
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

void require_whole_mappings() {
  const std::lock_guard lock(table_mutex);
  for (const Mapping& file : table) {
    if (file.begin.load() == nullptr) continue;
    struct stat status = {};
    if (::stat(file.path, &status) != 0) continue;  // deleted, but still mapped
    if (status.st_dev != file.device || status.st_ino != file.inode) continue;
    if (static_cast<size_t>(status.st_size) >= file.size) continue;
    throw CodedError(fmt::format("{}: has {} bytes, but had {} when it was opened: {}", file.path,
                                 status.st_size, file.size, kAdvice),
                     ExitCode::data);
  }
}

KnownMapping::KnownMapping(const std::string& path, int file, std::span<const std::byte> bytes) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) return;
  const std::lock_guard lock(table_mutex);
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].begin.load() != nullptr) continue;
    table[i].size = bytes.size();
    table[i].device = status.st_dev;
    table[i].inode = status.st_ino;
    table[i].path[path.copy(table[i].path, sizeof(table[i].path) - 1)] = '\0';
    table[i].begin.store(bytes.data(), std::memory_order_release);
    place_ = static_cast<int>(i);
    return;
  }
}

KnownMapping::~KnownMapping() {
  if (place_ < 0) return;
  const std::lock_guard lock(table_mutex);
  table[static_cast<size_t>(place_)].begin.store(nullptr);
}

}  // namespace tessera
