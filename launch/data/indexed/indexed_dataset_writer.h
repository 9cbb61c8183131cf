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

/// Writes a dataset in Megatron-LM's format (indexed_format.h), token by token: only the index,
/// some bytes a document, is held in memory. PREFIX.bin, PREFIX.idx and, if there is any metadata,
/// PREFIX.meta.json (dataset_metadata.h) appear together in finish(), on disk and whole; a writer
/// that ends before leaves nothing behind.
class IndexedDatasetWriter {
 public:
  struct Options {
    TokenType type = TokenType::i32;
    /// Whether an existing dataset of this name is replaced; else it is an error.
    bool overwrite = false;
    /// A longer document is written as several sequences. The index can not hold more than this.
    int64_t max_sequence_length = std::numeric_limits<int32_t>::max();
  };

  /// Throws if the dataset exists and may not be overwritten, if another writer, of any process, is
  /// at it, or if it can not be written there.
  IndexedDatasetWriter(const std::string& prefix, const Options& options);

  /// Adds tokens to the current sequence. Throws if one does not fit into the token type; then only
  /// destroying the writer is left.
  void append(std::span<const int32_t> tokens);

  /// Ends the current sequence, which may be empty. The document goes on.
  void end_sequence();

  /// Ends the current document, and its current sequence if that has tokens.
  void end_document();

  /// Writes the index and the metadata file, which is left out if it has no bytes, and gives all
  /// files their names. Throws if tokens follow the last end_document(), or if another dataset has
  /// come that may not be overwritten.
  void finish(std::string_view metadata = {});

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
  bool has_metadata_ = false;
  std::vector<std::byte> scratch_;  ///< tokens in their type in the file
  std::vector<int32_t> sequence_lengths_;
  std::vector<int64_t> document_indices_{0};
  int64_t current_length_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace tessera
