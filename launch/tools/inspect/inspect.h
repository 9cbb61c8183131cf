#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/tokenizers/tokenizer.h"

namespace tessera {

struct InspectOptions {
  std::string path;
  std::optional<std::string> tokenizer;  ///< a specification, to show a dataset's documents with
  std::optional<int64_t> documents;      ///< of a dataset, so many are shown; else 3
  std::optional<std::string> text;       ///< for a tokenizer: to be cut
};

/// What is at a path, for people: a run's folder, a step's, a dataset's prefix or one of its files,
/// a safetensors file, a folder of Hugging Face's, a folder or file of a tokenizer, or the
/// specification of one (tokenizer_spec.h). Throws, with what there could be, if it is none of
/// these or is damaged, and if an option is given that says something of another kind. Of
/// checkpoints only what describes them is read; `verify` reads all.
std::string inspect(const InspectOptions& options);

// What inspect() says of each, in lines.

std::string describe_checkpoint(const std::filesystem::path& step_folder);
std::string describe_run(const std::filesystem::path& folder);
/// A folder with a config.json, as transformers writes it.
std::string describe_hugging_face(const std::filesystem::path& folder);
std::string describe_safetensors(const std::filesystem::path& file);
/// `tokenizer` may be null: then documents are shown as numbers, unless the dataset's metadata says
/// that its tokens are bytes. Throws if the metadata names another tokenizer.
std::string describe_dataset(const std::string& prefix, const Tokenizer* tokenizer,
                             int64_t documents);
std::string describe_tokenizer(const Tokenizer& tokenizer, const std::optional<std::string>& text);

}  // namespace tessera
