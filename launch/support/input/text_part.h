#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The end of a sequence or document, in text or tokens.
struct Mark {
  enum class Ends : uint8_t { nothing, sequence, document };
  size_t at = 0;
  Ends ends = Ends::nothing;
};

/// Text of one or more sequences. The first may continue from the previous part, and the last may
/// continue in the next one. Text between marks is tokenized separately.
struct TextPart {
  std::string text;
  std::vector<Mark> marks;  ///< in ascending order; the last is the end of the text
};

/// Whole lines of a file of JSON lines or of ids.
struct TextLines {
  std::string path;
  int64_t first_line = 1;
  std::string text;
};

}  // namespace tessera
