#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Where a sequence or a document ends, in text or in tokens.
struct Mark {
  enum class Ends : uint8_t { nothing, sequence, document };
  size_t at = 0;
  Ends ends = Ends::nothing;
};

/// Text of one or several sequences, of which the first may go on from the part before, and the
/// last in the part behind. What lies between marks is tokenized by itself.
struct TextPart {
  std::string text;
  std::vector<Mark> marks;  ///< ascending; the last at the end of the text
};

/// Whole lines of a JSON lines file.
struct JsonLines {
  std::string path;
  int64_t first_line = 1;
  std::string text;
};

}  // namespace tessera
