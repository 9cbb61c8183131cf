#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/indexed/indexed_format.h"
#include "launch/support/files/staged_file.h"

namespace tessera {

/// Writes a dataset in Megatron-LM's format (indexed_format.h), token by token. Keeps only the
/// index in memory, a few bytes per document. finish() makes PREFIX.bin, PREFIX.idx and, if given,
/// PREFIX.meta.json and PREFIX.tokenizer.json (dataset_metadata.h) appear together, complete and on
/// disk; otherwise the writer leaves nothing behind.
class IndexedDatasetWriter {
 public:
  struct Options {
    TokenType type = TokenType::i32;
    /// Whether to replace an existing dataset of this name; otherwise it is an error.
    bool overwrite = false;
    /// Longer documents are written as several sequences. The default is the index's limit.
    int64_t max_sequence_length = std::numeric_limits<int32_t>::max();
  };

  /// Throws if the dataset exists and may not be overwritten, if another writer of any process is
  /// writing it, or if it cannot be written there.
  IndexedDatasetWriter(const std::string& prefix, const Options& options);

  /// Adds tokens to the current sequence. Throws if one does not fit the token type; the writer can
  /// then only be destroyed.
  void append(std::span<const int32_t> tokens);

  /// Ends the current sequence, which may be empty. The document continues.
  void end_sequence();

  /// Ends the current document, and its current sequence if that has tokens.
  void end_document();

  /// Writes the index, and the contents of the metadata and the tokenizer file, which are omitted
  /// if empty, and renames all files. Throws if tokens follow the last end_document(), or if a
  /// dataset that may not be overwritten has appeared.
  void finish(std::string_view metadata = {}, std::string_view tokenizer = {});

  int64_t num_sequences() const { return static_cast<int64_t>(sequence_lengths_.size()); }
  int64_t num_documents() const { return static_cast<int64_t>(document_indices_.size()) - 1; }
  int64_t num_tokens() const { return num_tokens_; }
  TokenType token_type() const { return options_.type; }

 private:
  void write_tokens(std::span<const int32_t> tokens);
  void write_index();
  void publish();

  Options options_;
  std::string prefix_;
  StagedFile bin_;
  StagedFile index_;
  StagedFile metadata_;
  StagedFile tokenizer_;
  bool has_metadata_ = false;
  bool has_tokenizer_ = false;
  std::vector<std::byte> scratch_;  ///< tokens as stored in the file
  std::vector<int32_t> sequence_lengths_;
  std::vector<int64_t> document_indices_{0};
  int64_t current_length_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace tessera
