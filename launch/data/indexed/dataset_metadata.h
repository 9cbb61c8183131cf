#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launch/data/indexed/indexed_dataset.h"
#include "launch/tokenizers/tokenizer_identity.h"

namespace tessera {

/// What `tessera prepare` knows of a dataset and Megatron-LM's format has no place for: the JSON
/// file PREFIX.meta.json. Datasets that other programs wrote have none.
struct DatasetMetadata {
  std::string tessera_version;  ///< of the program that wrote it
  TokenizerIdentity tokenizer;  ///< that cut the text
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t tokens = 0;            ///< ends of documents included
  int64_t bytes = 0;             ///< of the text that the tokens stand for
  int64_t unknown = 0;           ///< tokens that stand for text without a token
  int64_t invalid = 0;           ///< characters that stand for invalid UTF-8
  bool end_of_document = false;  ///< whether a token of its own ends each document

  bool operator==(const DatasetMetadata&) const = default;
};

/// PREFIX.meta.json
std::string metadata_path(std::string_view prefix);

/// The bytes of that file.
std::string metadata_text(const DatasetMetadata& metadata);

/// The metadata of such a text, which may be hostile; `source` names it in messages. Throws if it
/// is anything else. Keys that this version does not know are left alone.
DatasetMetadata parse_metadata(std::string_view text, const std::string& source);

/// The metadata of a dataset, or nothing if it has none. Throws if the file is damaged, or tells
/// other counts than the dataset's index: then it is another dataset's.
std::optional<DatasetMetadata> read_metadata(const IndexedDataset& dataset);

}  // namespace tessera
