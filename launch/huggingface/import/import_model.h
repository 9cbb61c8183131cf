#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/tokenizers/tokenizer_identity.h"
#include "models/model_config.h"

namespace tessera {

struct ImportOptions {
  std::filesystem::path from;               ///< a folder written by save_pretrained()
  std::filesystem::path to;                 ///< a run's folder, without checkpoints
  std::optional<std::string> tokenizer;     ///< a specification that replaces the folder's
  std::optional<std::string> architecture;  ///< replaces config.json's: "BertForPreTraining"
  SpecialTokenIds special_tokens = {};      ///< with tokenizer "none"
};

struct ImportReport {
  std::filesystem::path checkpoint;  ///< the new step's folder
  std::string model_class;           ///< "GPT2LMHeadModel"
  ModelConfig model;
  std::vector<std::string> labels;  ///< names of a classifier's labels, if any
  std::string tokenizer;            ///< its specification, as in data.tokenizer
  TokenizerIdentity identity;
  std::vector<std::string> left_out;  ///< tensors of heads that the model lacks
  std::vector<std::string> notes;
};

/// Throws if a run has checkpoints, which an import does not overwrite.
void require_no_checkpoints(const std::filesystem::path& run);

/// Throws, naming the key, unless commands accept a checkpoint of such a model. `from` is where the
/// model is from.
void require_usable(const ModelConfig& model, const std::filesystem::path& from);

/// Makes RUN/checkpoints/step_00000000 from a folder in Hugging Face's format: the weights alone,
/// in fp32, with the tokenizer. A run in RUN starts from it as from its own checkpoint; other runs
/// use checkpoint.from. Maps the files and keeps one tensor in memory at a time. Throws, naming the
/// problem and creating nothing, if the model is not expressible in Tessera (import_config(),
/// match_tensors()), is damaged or not finite, or if RUN has checkpoints.
ImportReport import_model(const ImportOptions& options);

}  // namespace tessera
