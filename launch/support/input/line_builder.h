#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "launch/support/input/text_part.h"

namespace tessera {

/// Whole lines of a file, in parts of a piece or of one longer line.
class LineBuilder {
 public:
  LineBuilder(std::string path, std::deque<JsonLines>& parts);

  /// `position` is how much of the file, as it is, was read. Throws, naming file and line, at a
  /// line that is so much longer than that, that only a decompression bomb has it.
  void add(std::string_view text, int64_t position);
  /// Hands out the lines that are whole: nothing more comes.
  void hand_out_whole();
  void end_file();

 private:
  void check_length(int64_t position) const;
  void hand_out(size_t size);

  std::deque<JsonLines>& parts_;
  JsonLines lines_;
  size_t whole_ = 0;  ///< bytes of whole lines
};

}  // namespace tessera
