#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// The folder of sentence-transformers' pooling.
inline constexpr const char* kPoolingFolder = "1_Pooling";

/// Reads a file of JSON of at most 16 MiB. Throws, naming the file.
Json read_small_json(const std::filesystem::path& path);

/// Sets the pooling of an embedding model from a folder's modules.json and the config.json of its
/// pooling, which may be hostile. Without modules.json, it stays, and a note names it. Throws,
/// naming the file, for other modules than Transformer, Pooling and Normalize, and for other
/// poolings than the mean and [CLS].
void read_sentence_modules(const std::filesystem::path& folder, ModelConfig& model,
                           std::vector<std::string>& notes);

/// The files with which sentence_transformers.SentenceTransformer loads an embedding model, by
/// name; none for other models.
std::map<std::string, std::string> sentence_module_files(const ModelConfig& model);

}  // namespace tessera
