#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "launch/config/chat_form.h"
#include "launch/config/run_config.h"
#include "launch/data/sample.h"
#include "launch/generation/queried_model.h"
#include "launch/generation/sampled_text.h"
#include "launch/generation/target_generation.h"
#include "launch/metrics/model_sample.h"
#include "launch/tokenizers/tokenizer.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Writes texts for the prompts of a run (eval.prompts) while it trains.
class SampleWriter {
 public:
  /// With `chat`, what surrounds the messages of the training data, prompts are messages of the
  /// user. Throws, naming eval.prompts, if the run has no tokenizer (null) or it cannot encode a
  /// prompt. `tokenizer` must outlive this.
  SampleWriter(const RunConfig& config, const Tokenizer* tokenizer,
               const std::shared_ptr<const ChatForm>& chat = nullptr);

  /// Writes a text for each prompt with the model's current weights, after `step` steps: the same
  /// passes on every rank, so that ranks may share the weights. Each text is written alone, and the
  /// random numbers depend only on run.seed, the step and the prompt's place. Collective over the
  /// world.
  std::vector<ModelSample> write(QueriedModel& model, const ParallelGroups& groups,
                                 int64_t step) const;

 private:
  std::string write_one(QueriedModel& model, size_t prompt, uint64_t seed) const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> prompts_;
  uint64_t seed_;
  SamplingOptions sampling_;
  TextEnds ends_;
  std::vector<std::vector<int32_t>> tokens_;  // of the prompts, of a model that continues texts
  std::vector<Sample> sources_;               // of an encoder-decoder
};

/// Runs on the meta device the passes of a SampleWriter with the most memory. Returns the bytes
/// that they need on the device besides the arena.
size_t dry_samples(Model& model, Arena& arena);

}  // namespace tessera
