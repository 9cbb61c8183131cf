#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/tools/generate/beam_search.h"
#include "launch/tools/generate/sampler.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// How an encoder–decoder writes a target text.
struct TargetOptions {
  BeamOptions beams;
  std::optional<SamplingOptions> sampling;  ///< samples instead of searching
  int64_t max_tokens = 0;                   ///< 0: as many as the model supports
};

/// Returns the target tokens of each source, without `end`. `sources` have the first token of the
/// decoder as their only token (source_sample()). `first` is the number of the first one, on which
/// the samples depend. Collective over model.tp().
std::vector<std::vector<int32_t>> generate_targets(TextModel& model,
                                                   std::span<const Sample> sources,
                                                   const TargetOptions& options,
                                                   std::optional<int32_t> end, int64_t first = 0);

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
