#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace tessera {

/// Settings that define a classifier besides its weights and its head, and have no key in PEFT's
/// adapter_config.json.
struct ClassifierSettings {
  ProblemType problem_type = ProblemType::single_label_classification;
  Pooling pooling = Pooling::cls;   ///< model.classifier_pooling
  std::vector<std::string> labels;  ///< names, as in data.labels; may be empty
};

/// The settings as metadata of a safetensors file; none for a model that does not classify. PEFT
/// ignores the metadata, and drops it when it saves what it loaded.
std::map<std::string, std::string> classifier_metadata(const ModelConfig& model,
                                                       const std::vector<std::string>& labels);

/// Reads the settings from a file's metadata, which may be hostile; nullopt if it has none. `where`
/// names the file in messages.
std::optional<ClassifierSettings> read_classifier_metadata(
    const std::map<std::string, std::string>& metadata, const std::string& where);

}  // namespace tessera
