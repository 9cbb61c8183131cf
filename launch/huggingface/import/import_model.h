#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/tokenizers/tokenizer_identity.h"
#include "models/model_config.h"

namespace tessera {

struct ImportOptions {
  std::filesystem::path from;               ///< a folder that save_pretrained() wrote
  std::filesystem::path to;                 ///< a run's folder, without checkpoints
  std::optional<std::string> tokenizer;     ///< a specification, in place of the folder's
  std::optional<std::string> architecture;  ///< in place of config.json's: "BertForPreTraining"
};

struct ImportReport {
  std::filesystem::path checkpoint;  ///< the step's folder that was made
  std::string model_class;           ///< "GPT2LMHeadModel"
  ModelConfig model;
  std::vector<std::string> labels;  ///< names of a classifier's labels, where it has any
  std::string tokenizer;            ///< its specification, as data.tokenizer says it
  TokenizerIdentity identity;
  std::vector<std::string> left_out;  ///< tensors of heads that the model has not
  std::vector<std::string> notes;
};

/// Makes RUN/checkpoints/step_00000000 of a folder in Hugging Face's format: the weights alone, in
/// fp32, with the tokenizer. A run in RUN starts from them as from its own, and another by
/// checkpoint.from. The files are mapped, and one tensor at a time is in memory. Throws, naming
/// what is wrong, if anything of the model is not Tessera's (import_config(), match_tensors()), is
/// damaged or not finite, or if RUN has checkpoints; then there is none.
ImportReport import_model(const ImportOptions& options);

}  // namespace tessera
