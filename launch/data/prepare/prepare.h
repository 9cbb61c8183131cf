#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/data/indexed/indexed_format.h"
#include "launch/support/input/document_splitter.h"
#include "launch/support/input/input_files.h"

namespace tessera {

/// How far prepare() is.
struct PrepareProgress {
  int64_t read = 0;              ///< bytes of the inputs, as they are, that are done
  std::optional<int64_t> total;  ///< unless one is a pipe
  int64_t text = 0;              ///< bytes of their text
  double seconds = 0.0;
};

struct PrepareOptions {
  std::string tokenizer = "byte";  ///< a specification (tokenizer_spec.h)
  InputOptions input = {};
  Documents documents = Documents::file;  ///< of text
  Sentences sentences = Sentences::none;
  bool append_end = false;  ///< the tokenizer's end of a document, to each document
  /// OUTPUT.bin, OUTPUT.idx and OUTPUT.meta.json are written; missing folders are created.
  std::string output = {};
  bool overwrite = false;
  int threads = 1;
  /// Called now and then, by one thread at a time.
  std::function<void(const PrepareProgress&)> on_progress = {};
};

/// What was written.
struct PrepareReport {
  int64_t documents = 0;
  int64_t empty_documents = 0;  ///< had no token and were left out
  int64_t sequences = 0;
  int64_t tokens = 0;           ///< ends of documents included
  int64_t unknown = 0;          ///< of them
  int64_t bytes = 0;            ///< of the text that the tokens stand for
  int64_t invalid = 0;          ///< characters that stand for invalid UTF-8
  int64_t malformed_lines = 0;  ///< that were skipped
  std::string first_malformed;  ///< what was wrong with the first of them, and where
  double seconds = 0.0;
  TokenType token_type = TokenType::u16;
};

/// Tokenizes text into a dataset (indexed_format.h) with metadata (dataset_metadata.h), in pieces:
/// its memory does not grow with the files, but for a document in JSON, which is read whole. What
/// is written does not depend on the number of threads, nor does the error, if there is one: what
/// is wrong first in the inputs. Throws before it writes anything if options or inputs do not fit
/// together or an input is missing, naming all such inputs; whatever fails later, and text without
/// any token, leaves no dataset behind.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace tessera
