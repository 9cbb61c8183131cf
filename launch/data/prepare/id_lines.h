#pragma once

#include <cstdint>

#include "launch/data/prepare/input_part.h"

namespace tessera {

/// Reads lines of ids, in decimal and separated by white space: each line is a document, blank
/// lines are skipped. Throws, naming file, line and word, if a word is not an id from 0 to
/// vocab_size - 1.
TokenPart read_id_lines(const TextLines& lines, int64_t vocab_size);

}  // namespace tessera
