#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tools/generate/beam_search.h"
#include "launch/tools/generate/sampled_text.h"
#include "launch/tools/generate/sampler.h"
#include "launch/tools/generate/stop_strings.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// How an encoder–decoder writes a target text.
struct TargetOptions {
  BeamOptions beams;  ///< for more than one beam
  SamplingOptions sampling = {.temperature = 0.0};
  StopStrings stops = {};
  int64_t max_tokens = 0;  ///< 0: as many as the model supports
};

/// A text that an encoder–decoder has written.
struct Target {
  std::vector<int32_t> tokens;  ///< without the end token
  std::string text;             ///< cut before a stop string
};

/// Writes a target for each source. `sources` have the first token of the decoder as their only
/// token (source_sample()). `first` is the number of the first one, on which the samples depend.
/// Calls `on_token`, if it is set, for each new token of a text, unless there are several beams.
/// Throws if the tokenizer has no token that ends a text. Collective over model.tp().
std::vector<Target> generate_targets(TextModel& model, const Tokenizer& tokenizer,
                                     std::span<const Sample> sources, const TargetOptions& options,
                                     int64_t first = 0, const OnToken& on_token = {});

/// The input for a source text: the parts of the source, and the first token of the decoder. Throws
/// as PairEncoder::encode_source does.
Sample source_sample(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view source,
                     bool truncate, std::string_view where);

/// The input for a source text and the target that the model writes for it with greedy search: the
/// parts of the source, and what the decoder reads to write the target and its end. Throws as
/// source_sample() does. Collective over model.tp().
Sample sample_with_written_target(TextModel& model, const Tokenizer& tokenizer,
                                  std::string_view source, std::string_view where);

/// The target texts for the sources of a file: the lines of a .txt file, or the source texts of a
/// .jsonl or .tsv file of pairs, whose targets may be missing. Throws, naming file and line, for a
/// source that cannot be encoded.
///
///     tsv    the header "target" and a line per text, with spaces for tabs and line ends
///     jsonl  {"target": "..."}
std::unique_ptr<const FilePrediction> target_prediction(const ModelConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        const TargetOptions& options,
                                                        const FilePredictionOptions& file);

}  // namespace tessera
