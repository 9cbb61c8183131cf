#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/files/decompressor.h"
#include "launch/support/files/file_descriptor.h"

namespace tessera {

/// The maximum size of a piece.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

/// The byte order mark of UTF-8. Some programs put it at the beginning of a file; it is not part of
/// the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The path that stands for standard input.
inline constexpr std::string_view kStdin = "-";

/// Reads a file, a pipe or "-" once, sequentially. Decompresses gzip and zstd, detected by their
/// first bytes, and leaves out a byte order mark of UTF-8. Refuses UTF-16 and Parquet. A file that
/// expands a millionfold costs time, but no memory.
class PieceReader {
 public:
  /// Throws, naming the file and the reason, if it cannot be opened. `stop` ends waits for a pipe,
  /// including the wait for its first writer.
  explicit PieceReader(std::string path, std::stop_token stop = {});

  /// Returns the next piece of at most kPieceBytes, valid until the next call; empty at the end.
  /// Throws, naming the file and the position, if it cannot be read or decompressed.
  std::string_view next();

  /// The number of bytes read from the file, before decompression.
  int64_t position() const { return position_; }
  const std::string& path() const { return path_; }

 private:
  void start();
  std::string_view following();
  std::string_view decompressed();
  /// Reads into raw_ from `filled` on, up to its capacity. Returns 0 at the end.
  size_t read_some(size_t filled);
  /// Waits for bytes, end of file or an error.
  void wait_for_data() const;

  std::string path_;
  std::stop_token stop_;
  FileDescriptor file_;
  int64_t position_ = 0;
  std::vector<char> raw_;    ///< bytes of the file
  std::string_view unread_;  ///< part of raw_ that was not yet returned or decompressed
  bool started_ = false;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<char> piece_;  ///< decompressed bytes
};

}  // namespace tessera
