#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

struct InspectOptions {
  std::string path;
  std::optional<std::string> tokenizer;  ///< a specification, to show a dataset's documents with
  std::optional<int64_t> documents;      ///< number of a dataset's documents to show; 3 by default
  std::optional<int64_t> document;       ///< instead: the number of one to show completely
  std::optional<int64_t> sample;         ///< for a run: the number of a training sample to show
  std::optional<std::string> text;       ///< for a tokenizer: text to tokenize
};

/// Describes what is at a path: a run's folder, a step's, a dataset's prefix or one of its files, a
/// safetensors file, a Hugging Face folder, a folder or file of a tokenizer, or a tokenizer
/// specification (tokenizer_spec.h). Throws, listing the kinds, if it is none of these or is
/// damaged, and if an option applies to another kind. Reads only the metadata of checkpoints;
/// `verify` reads everything.
std::string inspect(const InspectOptions& options);

// The lines of inspect() for each kind.

std::string describe_checkpoint(const std::filesystem::path& step_folder);
std::string describe_run(const std::filesystem::path& folder);
/// A folder with a config.json, as written by transformers.
std::string describe_hugging_face(const std::filesystem::path& folder);
std::string describe_safetensors(const std::filesystem::path& file);
/// A training sample of a configuration: where its documents are from, their ids, targets and
/// labels, and their text. Throws if there is no such sample.
std::string describe_sample(const std::filesystem::path& config_file, int64_t number);
/// Ids and, with a tokenizer, their text.
std::string describe_ids(const std::vector<int32_t>& ids, const Tokenizer* tokenizer);
/// A dataset, or only `document`, completely. Without a `tokenizer` (null), documents are shown as
/// numbers, unless the dataset's metadata says that its tokens are bytes. Throws if the metadata
/// names another tokenizer.
std::string describe_dataset(const std::string& prefix, const Tokenizer* tokenizer,
                             int64_t documents, std::optional<int64_t> document = {});
std::string describe_tokenizer(const Tokenizer& tokenizer, const std::optional<std::string>& text);

}  // namespace tessera
