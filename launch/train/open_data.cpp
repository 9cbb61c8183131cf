#include "launch/train/open_data.h"

#include "core/error.h"
#include "core/random.h"
#include "launch/data/bert_dataset.h"
#include "launch/data/gpt_dataset.h"

namespace tessera {
namespace {

using Tokens = std::shared_ptr<const IndexedDataset>;

std::shared_ptr<const Dataset> gpt_samples(const RunConfig& config, const Tokens& tokens,
                                           Range range) {
  GptDataOptions options;
  options.separate_documents = config.data.separate_documents;
  options.loss_across_documents = config.data.loss_across_documents;
  return std::make_shared<const GptDataset>(tokens, range, config.model.seq_length, options);
}

/// Splits `train`, or opens the dataset of its own to evaluate on. `samples(tokens, range, seed)`
/// makes the samples; evaluation has masks of its own.
template <typename Samples>
TrainingData split(const RunConfig& config, Samples&& samples) {
  const int64_t vocab_size = config.model.vocab_size;
  const auto seed = static_cast<uint64_t>(config.run.seed);
  const uint64_t eval_seed = seed_for(seed, "eval");
  const auto train = std::make_shared<const IndexedDataset>(config.data.train, vocab_size);
  const TokenSplit parts = split_tokens(train->num_tokens(), config.data.eval_fraction);
  TrainingData data;
  data.train = samples(train, parts.train, seed);
  if (config.data.eval) {
    const auto eval = std::make_shared<const IndexedDataset>(*config.data.eval, vocab_size);
    data.eval = samples(eval, Range{0, eval->num_tokens()}, eval_seed);
  } else if (config.data.eval_fraction > 0.0) {
    data.eval = samples(train, parts.eval, eval_seed);
  }
  return data;
}

/// Every token needs its row of the embedding.
void check_vocabulary(const RunConfig& config, const Tokenizer& tokenizer) {
  require(
      tokenizer.vocab_size() <= config.model.vocab_size,
      "model.vocab_size is {}, but data.tokenizer is {}, which has {} tokens: choose {} or more",
      config.model.vocab_size, config.data.tokenizer, tokenizer.vocab_size(),
      tokenizer.vocab_size());
}

}  // namespace

TrainingData open_data(const RunConfig& config) {
  require(!config.model.is_bert(), "not yet");
  std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(config.data.tokenizer);
  check_vocabulary(config, *tokenizer);
  TrainingData data = split(config, [&](const Tokens& tokens, Range range, uint64_t) {
    return gpt_samples(config, tokens, range);
  });
  data.tokenizer = std::move(tokenizer);
  return data;
}

}  // namespace tessera
