#pragma once

#include <cstdint>
#include <optional>

#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/data/prepare/input_part.h"

namespace tessera {

/// Writes the sequences and documents of a dataset from parts, which arrive in text order. Drops
/// sequences and documents without tokens.
class TokenPartWriter {
 public:
  /// `end`, if set, follows the tokens of each document.
  TokenPartWriter(IndexedDatasetWriter& writer, std::optional<int32_t> end)
      : writer_(writer), end_(end) {}

  void add(const TokenPart& part);

  int64_t empty_documents() const { return empty_documents_; }

 private:
  void append(std::span<const int32_t> tokens);
  void end_document();

  IndexedDatasetWriter& writer_;
  std::optional<int32_t> end_;
  bool sequence_ended_ = false;
  bool document_empty_ = true;
  int64_t empty_documents_ = 0;
};

}  // namespace tessera
