#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/indexed/indexed_format.h"
#include "launch/support/files/staged_file.h"

namespace tessera {

/// The file of the tokens in the order of append(), for IndexedDatasetWriter::Options::order.
std::string unordered_path(const std::string& prefix);

/// Writes a dataset in Megatron-LM's format (indexed_format.h), token by token. Keeps only the
/// index in memory: 4 bytes per sequence and 8 per document, with an order at most 8 and 24.
/// finish() makes PREFIX.bin, PREFIX.idx and, if given, PREFIX.meta.json and PREFIX.tokenizer.json
/// (dataset_metadata.h) appear together, complete and on disk; otherwise the writer leaves nothing
/// behind.
class IndexedDatasetWriter {
 public:
  struct Options {
    TokenType type = TokenType::i32;
    /// Whether to replace an existing dataset of this name; otherwise it is an error.
    bool overwrite = false;
    /// Longer documents are written as several sequences. The default is the index's limit.
    int64_t max_sequence_length = std::numeric_limits<int32_t>::max();
    /// If set, document number `order(documents, place)` is stored at `place`: a permutation of 0
    /// to documents - 1. Tokens then go to PREFIX.bin.unordered.tmp first, and finish() copies
    /// them.
    std::function<int64_t(int64_t documents, int64_t place)> order = {};
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

  /// Removes everything that was appended since the last end_document().
  void discard_document();

  /// Writes the index, and the contents of the metadata and the tokenizer file, which are omitted
  /// if empty, and renames all files. Throws if tokens follow the last end_document(), or if a
  /// dataset that may not be overwritten has appeared.
  void finish(std::string_view metadata = {}, std::string_view tokenizer = {});

  int64_t num_sequences() const { return static_cast<int64_t>(sequence_lengths_.size()); }
  int64_t num_documents() const { return static_cast<int64_t>(document_indices_.size()) - 1; }
  int64_t num_tokens() const { return num_tokens_; }
  TokenType token_type() const { return options_.type; }

 private:
  void store(std::span<const int32_t> tokens);
  void write_stored();
  void put_in_order();
  void write_index();
  StagedFile& token_file() { return unordered_ ? *unordered_ : bin_; }
  void publish();

  Options options_;
  std::string prefix_;
  StagedFile bin_;
  std::optional<StagedFile> unordered_;  ///< the tokens in the order of append()
  StagedFile index_;
  StagedFile metadata_;
  StagedFile tokenizer_;
  bool has_metadata_ = false;
  bool has_tokenizer_ = false;
  std::vector<std::byte> stored_;  ///< tokens as in the file, which are not yet written
  std::vector<int32_t> sequence_lengths_;
  std::vector<int64_t> document_indices_{0};
  int64_t current_length_ = 0;
  int64_t num_tokens_ = 0;
  int64_t document_start_ = 0;  ///< number of tokens before the current document
};

}  // namespace tessera
