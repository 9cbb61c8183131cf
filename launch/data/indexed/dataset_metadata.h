#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/data/indexed/indexed_dataset.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"

namespace tessera {

/// Information that `tessera prepare` adds to Megatron-LM's format, in the JSON file
/// PREFIX.meta.json. Datasets written by other programs have none.
struct DatasetMetadata {
  std::string tessera_version;  ///< of the program that wrote it
  TokenizerIdentity tokenizer;  ///< that encoded the text; "none" for ids
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t tokens = 0;            ///< including ends of documents
  int64_t bytes = 0;             ///< of the text that the tokens encode; 0 for ids
  int64_t unknown = 0;           ///< tokens for text outside the vocabulary
  int64_t invalid = 0;           ///< characters that replace invalid UTF-8
  bool end_of_document = false;  ///< whether an extra token ends each document
  int64_t empty_documents = 0;   ///< left out, because they had no token

  // Nothing if they were not counted.
  std::optional<int64_t> duplicates = {};       ///< documents with the text of an earlier one
  std::optional<int64_t> near_duplicates = {};  ///< nearly with the text of an earlier one
  bool duplicates_dropped = false;              ///< whether both were left out

  std::optional<int64_t> shuffle_seed = {};  ///< of the documents' order, if not the input's

  bool operator==(const DatasetMetadata&) const = default;
};

/// PREFIX.meta.json
std::string metadata_path(std::string_view prefix);

/// PREFIX.tokenizer.json, in which `tessera prepare` keeps the tokenizer (Tokenizer::to_json()), so
/// that a dataset can be copied or moved and still be read as text.
std::string tokenizer_path(std::string_view prefix);

/// The paths of all files of a dataset. Only .bin and .idx always exist.
std::array<std::string, 4> dataset_files(const std::string& prefix);

/// Returns the contents of that file.
std::string metadata_text(const DatasetMetadata& metadata);

/// Parses untrusted metadata; `source` names it in messages. Throws if it is invalid. Ignores
/// unknown keys.
DatasetMetadata parse_metadata(std::string_view text, const std::string& source);

/// Returns the metadata of a dataset, or nothing if it has none. Throws if the file is damaged, or
/// if its counts differ from the dataset's index, which means that it belongs to another dataset.
std::optional<DatasetMetadata> read_metadata(const IndexedDataset& dataset);

/// Returns the tokenizer that `tessera prepare` kept beside a dataset. Throws if there is none, or
/// if the metadata names another one.
std::unique_ptr<Tokenizer> tokenizer_of_dataset(const std::string& prefix);

}  // namespace tessera
