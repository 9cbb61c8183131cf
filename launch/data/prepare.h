#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/data/indexed_format.h"

namespace tessera {

struct PrepareOptions {
  std::string tokenizer = "byte";
  /// Text files, or pipes; each is one document. They are read once, in this order.
  std::vector<std::string> inputs = {};
  /// OUTPUT.bin and OUTPUT.idx are written; missing folders are created.
  std::string output = {};
  bool overwrite = false;
};

/// What was written.
struct PrepareReport {
  int64_t documents = 0;
  int64_t tokens = 0;  ///< ends of documents included
  int64_t bytes = 0;   ///< of text
  double seconds = 0.0;
  TokenType token_type = TokenType::u16;
};

/// Tokenizes text files into a dataset (indexed_format.h), an end of document after each, in
/// pieces: its memory does not grow with the files. Throws before it writes anything if an input is
/// missing or a directory, naming all such inputs; whatever fails later leaves no dataset behind.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace tessera
