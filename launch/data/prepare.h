#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/data/document_splitter.h"
#include "launch/data/indexed_format.h"

namespace tessera {

struct PrepareOptions {
  std::string tokenizer = "byte";  ///< a specification (tokenizer_spec.h)
  /// Text files, or pipes. They are read once, in this order.
  std::vector<std::string> inputs = {};
  Documents documents = Documents::file;
  Sentences sentences = Sentences::none;
  /// OUTPUT.bin and OUTPUT.idx are written; missing folders are created.
  std::string output = {};
  bool overwrite = false;
};

/// What was written.
struct PrepareReport {
  int64_t documents = 0;
  int64_t empty_documents = 0;  ///< had no token and were left out
  int64_t sequences = 0;
  int64_t tokens = 0;   ///< ends of documents included
  int64_t unknown = 0;  ///< of them
  int64_t bytes = 0;    ///< of text
  int64_t invalid = 0;  ///< characters that stand for invalid UTF-8, which the tokenizer left out
  double seconds = 0.0;
  TokenType token_type = TokenType::u16;
};

/// Tokenizes text files into a dataset (indexed_format.h), an end of document after each where the
/// tokenizer has one, in pieces: its memory does not grow with the files. Sequences and documents
/// without tokens are left out. Throws before it writes anything if an input is missing or a
/// directory, naming all such inputs; whatever fails later, and text without any token, leaves no
/// dataset behind.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace tessera
