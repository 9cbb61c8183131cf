#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "launch/huggingface/import/import_config.h"
#include "models/model_config.h"

namespace tessera {

/// The text of preprocessor_config.json by its name, which says how transformers resizes and
/// normalizes the images of a model; empty for a model of texts.
std::map<std::string, std::string> image_processor_files(const ModelConfig& model);

/// Reads how images are normalized from a folder's preprocessor_config.json. Notes if there is
/// none, or if it resizes images otherwise than Tessera. Throws, naming file and key, for what
/// Tessera does not compute.
void read_image_processor(const std::filesystem::path& folder, ImportedConfig& config);

}  // namespace tessera
