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

/// The most bytes of a file that are handed out at once.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

/// As the path of an input: standard input.
inline constexpr std::string_view kStdin = "-";

/// Reads a file or a pipe, or "-", once from begin to end. What starts as gzip or zstd do is
/// decompressed. A file that decompresses to a million times its size takes time, but no memory.
class PieceReader {
 public:
  /// Throws, naming the file and the reason, if it can not be opened. `stop` ends a wait for a
  /// pipe, and for its first writer.
  explicit PieceReader(std::string path, std::stop_token stop = {});

  /// The next at most kPieceBytes, valid until the next call; empty: this was all. Throws, naming
  /// the file and the place in it, if it can not be read or decompressed.
  std::string_view next();

  /// How many bytes of the file, as it is, were read.
  int64_t position() const { return position_; }
  const std::string& path() const { return path_; }

 private:
  void start();
  std::string_view decompressed();
  /// Reads up to as many bytes as there is room for in raw_ from `filled` on; 0 at the end.
  size_t read_some(size_t filled);
  /// Returns when there are bytes, the end or an error to be read.
  void wait_for_data() const;

  std::string path_;
  std::stop_token stop_;
  FileDescriptor file_;
  int64_t position_ = 0;
  std::vector<char> raw_;    ///< bytes of the file
  std::string_view unread_;  ///< those of them that were not handed out or decompressed
  bool started_ = false;
  std::unique_ptr<Decompressor> decompressor_;
  std::vector<char> piece_;  ///< decompressed
};

}  // namespace tessera
