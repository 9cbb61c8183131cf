#include "launch/support/files/piece_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/error.h"
#include "launch/support/files/replace.h"

namespace tessera {
namespace {

int open_to_read(const std::string& path) {
  // Duplicated, so that the reader always owns its descriptor.
  if (path == kStdin) return ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  // Without O_NONBLOCK, opening a named pipe waits for a writer, and the wait could not be stopped.
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/// The name of an unsupported compression format; empty for anything else.
std::string_view foreign_compression(std::string_view start) {
  if (start.starts_with("\xFD"
                        "7zX"))
    return "xz";
  if (start.starts_with("PK\x03\x04")) return "zip";
  if (start.starts_with("\x04\x22\x4D\x18")) return "lz4";
  // Plain text may also start with "BZh".
  const bool bzip2 = start.starts_with("BZh") && start.substr(3).find("1AY&SY") == 1;
  return bzip2 ? "bzip2" : "";
}

/// The format of a file that is no text in UTF-8, and what to do; empty if it may be.
std::string_view not_utf8(std::string_view start) {
  // A text may also start with "PAR1", but what follows in Parquet is a control character.
  if (start.starts_with("PAR1") && start.size() > 4 && static_cast<uint8_t>(start[4]) < '\t') {
    return "Parquet, not text: give it a name in .parquet, or add --format parquet";
  }
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) {
    return "UTF-16: convert it to UTF-8, as with iconv -f UTF-16 -t UTF-8";
  }
  return "";
}

}  // namespace

PieceReader::PieceReader(std::string path, std::stop_token stop)
    : path_(std::move(path)),
      stop_(std::move(stop)),
      file_(open_to_read(path_)),
      raw_(kPieceBytes) {
  if (!file_.valid()) fail("{}: cannot be opened: {}", path_, system_message(errno));
  remember_input(file_.get());
}

std::string_view PieceReader::next() {
  if (started_) return following();
  start();
  std::string_view first = following();
  if (const std::string_view format = not_utf8(first); !format.empty()) {
    fail("{}: is {}", path_, format);
  }
  if (!first.starts_with(kByteOrderMark)) return first;
  first.remove_prefix(kByteOrderMark.size());
  return first.empty() ? following() : first;
}

std::string_view PieceReader::following() {
  if (decompressor_ != nullptr) return decompressed();
  if (unread_.empty()) unread_ = {raw_.data(), read_some(0)};
  return std::exchange(unread_, {});
}

void PieceReader::start() {
  size_t filled = 0;
  constexpr size_t kLongestMagic = 10;  // that of bzip2
  while (filled < kLongestMagic) {
    const size_t count = read_some(filled);
    if (count == 0) break;
    filled += count;
  }
  unread_ = {raw_.data(), filled};
  const std::string_view foreign = foreign_compression(unread_);
  require(foreign.empty(), "{}: is compressed with {}, but only gzip and zstd are supported", path_,
          foreign);
  decompressor_ = make_decompressor(unread_);
  if (decompressor_ != nullptr) piece_.resize(kPieceBytes);
  started_ = true;
}

std::string_view PieceReader::decompressed() {
  while (true) {
    size_t count = 0;
    try {
      count = decompressor_->decompress(unread_, piece_);
    } catch (const Error& error) {
      fail("{}: is damaged near byte {}: {}", path_,
           position_ - static_cast<int64_t>(unread_.size()), error.what());
    }
    if (count > 0) return {piece_.data(), count};
    if (!unread_.empty()) continue;
    unread_ = {raw_.data(), read_some(0)};
    if (!unread_.empty()) continue;
    require(decompressor_->may_end(),
            "{}: ends after byte {} within compressed data: it is incomplete", path_, position_);
    return {};
  }
}

size_t PieceReader::read_some(size_t filled) {
  while (true) {
    wait_for_data();
    const ssize_t count = ::read(file_.get(), raw_.data() + filled, raw_.size() - filled);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) fail("{}: cannot be read: {}", path_, system_message(errno));
    position_ += count;
    return static_cast<size_t>(count);
  }
}

// Linux reports nothing about a named pipe before its first writer (pipe(7): no POLLHUP). A read()
// would report end of file, so wait until poll() reports something.
void PieceReader::wait_for_data() const {
  constexpr int kMilliseconds = 100;
  pollfd file = {file_.get(), POLLIN, 0};
  while (true) {
    const int ready = ::poll(&file, 1, kMilliseconds);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail("{}: cannot be read: {}", path_, system_message(errno));
    require(!stop_.stop_requested(), "{}: reading was stopped", path_);
  }
}

}  // namespace tessera
