#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/indexed/indexed_format.h"

namespace tessera {

/// A dataset without a fault.
struct DatasetCheck {
  std::string prefix;
  TokenType token_type = TokenType::i32;
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::optional<int32_t> smallest;  ///< token; nothing if there are no tokens
  std::optional<int32_t> largest;
  int64_t unused_bytes = 0;  ///< of PREFIX.bin, that belong to no sequence
};

/// Checks all bytes of a dataset that another program may have written: what opening it checks
/// (IndexedDataset), the order of the sequences in PREFIX.bin, every token, and the metadata if
/// there are any. Throws an error that names the file, the field and the byte of the first fault.
/// `on_progress`, if set, is called now and then with the number of tokens read and their total.
DatasetCheck check_dataset(const std::string& prefix,
                           int64_t vocab_size = IndexedDataset::kAnyVocabulary,
                           const std::function<void(int64_t, int64_t)>& on_progress = {});

/// "data/web: 3 documents, 3 sequences, 40 tokens (uint16), ids 0 to 256: no fault found"
std::string to_string(const DatasetCheck& check);

}  // namespace tessera
