#pragma once

#include <cstdint>
#include <optional>

#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/data/prepare/duplicate_finder.h"
#include "launch/data/prepare/input_part.h"

namespace tessera {

/// Writes the sequences and documents of a dataset from parts, which arrive in text order. Drops
/// sequences and documents without tokens, and on request documents that repeat earlier ones.
class TokenPartWriter {
 public:
  struct Options {
    std::optional<int32_t> end = {};  ///< follows the tokens of each document
    const MinHash* near = nullptr;    ///< finds near duplicates, too; must outlive this object
    bool drop_duplicates = false;
  };

  TokenPartWriter(IndexedDatasetWriter& writer, const Options& options)
      : writer_(writer), options_(options), finder_(options.near) {}

  void add(const TokenPart& part);

  /// Counts of the text, without that of documents that were dropped because they repeat others.
  const TextCounts& counts() const { return counts_; }
  int64_t empty_documents() const { return empty_documents_; }
  int64_t duplicates() const { return duplicates_; }
  int64_t near_duplicates() const { return near_duplicates_; }

 private:
  void append(std::span<const int32_t> tokens);
  void end_document();
  /// Whether the current document, which has tokens, is written.
  bool keeps_document();

  IndexedDatasetWriter& writer_;
  Options options_;
  DuplicateFinder finder_;
  bool sequence_ended_ = false;
  bool document_empty_ = true;
  TextCounts document_counts_;
  TextCounts counts_;
  int64_t empty_documents_ = 0;
  int64_t duplicates_ = 0;
  int64_t near_duplicates_ = 0;
};

}  // namespace tessera
