#include "launch/train/sample_writer.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "launch/generation/continuation.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

bool has_source(const ModelConfig& config) { return traits_of(config).source_length > 0; }

const Tokenizer& required(const Tokenizer* tokenizer) {
  require(tokenizer != nullptr && !is_none(*tokenizer),
          "eval.prompts has texts, but the data has no tokenizer (data.tokenizer), and without one "
          "the model knows only ids: leave prompts and sample_interval out");
  return *tokenizer;
}

}  // namespace

SampleWriter::SampleWriter(const RunConfig& config, const Tokenizer* tokenizer,
                           const std::shared_ptr<const ChatForm>& chat)
    : tokenizer_(required(tokenizer)),
      prompts_(config.eval.prompts),
      seed_(static_cast<uint64_t>(config.run.seed)) {
  sampling_.temperature = config.eval.sample_temperature;
  sampling_.vocab_size = tokenizer_.vocab_size();
  ends_.max_tokens = config.eval.sample_tokens;
  if (const auto end = tokenizer_.end_of_document()) ends_.tokens.push_back(*end);
  std::optional<Chat> messages;
  if (chat) {
    messages.emplace(Chat{ChatTemplate(chat, tokenizer_)});
    ends_.tokens.push_back(messages->form.reply_end());
  }
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const std::string where = fmt::format("eval.prompts, text {}", i + 1);
    if (has_source(config.model)) {
      sources_.push_back(
          source_sample(config.model, tokenizer_, prompts_[i], config.data.truncate, where));
    } else if (messages) {
      tokens_.push_back(
          encode_chat_prompt(config.model, tokenizer_, *messages, prompts_[i], where));
    } else {
      tokens_.push_back(encode_prompt(config.model, tokenizer_, prompts_[i], where));
    }
    if (!tokens_.empty()) require_fits(config.model, tokens_.back(), where, "shorten it");
  }
}

std::vector<ModelSample> SampleWriter::write(QueriedModel& model, const ParallelGroups& groups,
                                             int64_t step) const {
  const uint64_t seed = seed_for(seed_, fmt::format("samples of step {}", step));
  std::vector<ModelSample> samples;
  // All ranks have the same logits, so none of them fails alone.
  all_alike(groups.world, [&] {
    for (size_t i = 0; i < prompts_.size(); ++i) {
      samples.push_back({prompts_[i], write_one(model, i, seed)});
    }
  });
  return samples;
}

std::string SampleWriter::write_one(QueriedModel& model, size_t prompt, uint64_t seed) const {
  const auto number = static_cast<int64_t>(prompt);
  SamplingOptions sampling = sampling_;
  sampling.seed = seed;
  if (has_source(model.config())) {
    TargetOptions options;
    options.sampling = sampling;
    options.max_tokens = ends_.max_tokens;
    return generate_targets(model, tokenizer_, {&sources_[prompt], 1}, options, number)[0].text;
  }
  SampledText text(sampling, tokenizer_, ends_, tokens_[prompt], number);
  continue_texts(model, {&text, 1});
  return text.text().finish();
}

size_t dry_samples(Model& model, Arena& arena) {
  return has_source(model.config()) ? dry_target(model, arena) : dry_continuation(model, arena);
}

}  // namespace tessera
