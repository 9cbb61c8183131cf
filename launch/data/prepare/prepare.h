#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/data/indexed/indexed_format.h"
#include "launch/support/input/document_splitter.h"
#include "launch/support/input/input_files.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The progress of prepare().
struct PrepareProgress {
  int64_t read = 0;              ///< bytes of the inputs, as stored, that are done
  std::optional<int64_t> total;  ///< nothing if an input is a pipe
  int64_t documents = 0;         ///< in the dataset so far
  int64_t tokens = 0;
  double seconds = 0.0;
};

struct PrepareOptions {
  std::string tokenizer = "byte";  ///< a specification (tokenizer_spec.h)
  /// Required for tokenizer "none", whose inputs are lines of ids (id_lines.h), and only for it:
  /// ids are 0 to *vocab_size - 1.
  std::optional<int64_t> vocab_size = {};
  InputOptions input = {};
  /// For plain text, and for lines of ids only Documents::line; by default files, and for ids
  /// lines. In JSON lines each line is one, in Parquet each row.
  std::optional<Documents> documents = {};
  Sentences sentences = Sentences::none;
  bool append_end = false;  ///< append the tokenizer's end-of-document token to each document
  /// Writes OUTPUT.bin, .idx, .meta.json and .tokenizer.json, and creates missing folders.
  std::string output = {};
  bool overwrite = false;
  /// Leaves out documents with the text of an earlier one, byte for byte (of ids: with its ids).
  bool drop_duplicates = false;
  /// Also finds documents whose similarity to an earlier one is estimated to be at least this, from
  /// 0.3 to 1 (min_hash.h). Not for ids.
  std::optional<double> near_duplicates = {};
  /// If set, the documents are in a random order that depends only on this and on their number.
  std::optional<int64_t> shuffle_seed = {};
  int threads = 1;
  /// Called now and then, never concurrently.
  std::function<void(const PrepareProgress&)> on_progress = {};
};

/// Counts of what was written.
struct PrepareReport {
  int64_t documents = 0;
  int64_t empty_documents = 0;  ///< dropped because they have no tokens
  int64_t duplicates = 0;       ///< documents with the text of an earlier one
  int64_t near_duplicates = 0;  ///< similar to an earlier one, and no duplicate
  int64_t sequences = 0;
  int64_t tokens = 0;           ///< including ends of documents
  int64_t unknown = 0;          ///< number of unknown tokens
  int64_t bytes = 0;            ///< of the text that the tokens encode
  int64_t bytes_read = 0;       ///< of all text, or of lines of ids
  int64_t invalid = 0;          ///< characters that replace invalid UTF-8
  int64_t malformed_lines = 0;  ///< skipped lines or rows
  std::string first_malformed;  ///< problem with the first of them, and its position
  double seconds = 0.0;
  TokenType token_type = TokenType::u16;
};

/// Opens the tokenizer of `tokenizer` and `vocab_size`. Throws if they do not fit together.
std::unique_ptr<Tokenizer> open_tokenizer(const PrepareOptions& options);

/// Tokenizes text into a dataset (indexed_format.h) with metadata and tokenizer
/// (dataset_metadata.h). Works in pieces: memory does not grow with the files, except that a JSON
/// document and a page of Parquet are read whole, and for the index (indexed_dataset_writer.h) and
/// what is remembered of each document to find duplicates (duplicate_finder.h). The output does not
/// depend on the number of threads; nor does the error, which is the first in input order. If
/// options or inputs are inconsistent, or inputs are missing, throws before writing anything and
/// names all such inputs. After later failures, and for text without any token, leaves no dataset
/// behind.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace tessera
