#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "launch/support/input/text_part.h"

namespace tessera {

/// Groups a file's text into whole lines, in parts of about one piece or one longer line.
class LineBuilder {
 public:
  LineBuilder(std::string path, std::deque<TextLines>& parts);

  /// `position` is the number of bytes read from the file, before decompression. Throws, naming
  /// file and line, if a line is so much longer than `position` that the file must be a
  /// decompression bomb.
  void add(std::string_view text, int64_t position);
  /// Emits the remaining whole lines. Call it at the end.
  void emit_complete_lines();
  void end_file();

 private:
  void check_length(int64_t position) const;
  void emit(size_t size);

  std::deque<TextLines>& parts_;
  TextLines lines_;
  size_t whole_ = 0;  ///< bytes of whole lines
};

}  // namespace tessera
