#pragma once

#include <cstdint>
#include <optional>

#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/data/prepare/input_part.h"

namespace tessera {

/// Puts together the sequences and documents of a dataset from parts, which come in the order of
/// the text. Sequences and documents without any token are left out.
class TokenPartWriter {
 public:
  /// `end`, where there is one, follows the tokens of each document.
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
