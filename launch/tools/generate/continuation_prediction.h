#pragma once

#include <memory>
#include <optional>

#include "launch/generation/continuation.h"
#include "launch/tools/predict/file_prediction.h"

namespace tessera {

/// How the prompts of a file are continued.
struct ContinuationOptions {
  SamplingOptions sampling;
  TextEnds ends;
  std::optional<Chat> chat = {};  ///< prompts are messages of a user, or conversations

  TextStart start() const { return chat ? TextStart::alone : TextStart::after_prompt; }
};

/// The continuations of the prompts of a file (for_each_prompt). Prompts of similar length are
/// computed together. Throws, naming file and line, for a prompt that cannot be encoded.
/// A prediction is the column `generated_text`.
std::unique_ptr<const FilePrediction> continuation_prediction(const ModelConfig& config,
                                                              const Tokenizer& tokenizer,
                                                              const ContinuationOptions& options,
                                                              const FilePredictionOptions& file);

}  // namespace tessera
