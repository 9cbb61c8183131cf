#pragma once

#include <memory>

#include "launch/generation/target_generation.h"
#include "launch/tools/predict/file_prediction.h"

namespace tessera {

/// The target texts for the sources of a file: the lines of a .txt file, or the column `source` of
/// a file with columns (row_reader.h). Without a tokenizer, texts are ids. Throws, naming file and
/// line, for a source that cannot be encoded. A prediction is the column `target`.
std::unique_ptr<const FilePrediction> target_prediction(const ModelConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        const TargetOptions& options,
                                                        const FilePredictionOptions& file);

}  // namespace tessera
