#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/sample.h"
#include "launch/generation/beam_search.h"
#include "launch/generation/queried_model.h"
#include "launch/generation/sampled_text.h"
#include "launch/generation/sampler.h"
#include "launch/generation/stop_strings.h"
#include "launch/tokenizers/tokenizer.h"

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
std::vector<Target> generate_targets(QueriedModel& model, const Tokenizer& tokenizer,
                                     std::span<const Sample> sources, const TargetOptions& options,
                                     int64_t first = 0, const OnToken& on_token = {});

/// The input for a source text: the parts of the source, and the first token of the decoder. Throws
/// as PairEncoder::encode_source does.
Sample source_sample(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view source,
                     bool truncate, std::string_view where);
/// As above, for ids in decimal; throws also for one that is not in the model's vocabulary.
Sample source_sample_of_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                            std::string_view ids, bool truncate, std::string_view where);

/// The input for a source text and the target that the model writes for it with greedy search: the
/// parts of the source, and what the decoder reads to write the target and its end. Throws as
/// source_sample() does. Collective over model.tp().
Sample sample_with_written_target(QueriedModel& model, const Tokenizer& tokenizer,
                                  std::string_view source, std::string_view where);

/// Runs on the meta device the passes that write a target for any one source, without beams, those
/// with the most memory. Returns the bytes that they need on the device besides the arena.
size_t dry_target(Model& model, Arena& arena);

}  // namespace tessera
