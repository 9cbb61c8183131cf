#include "launch/train/open_data.h"

#include "core/error.h"
#include "core/random.h"
#include "launch/config/label_names.h"
#include "launch/data/bert_dataset.h"
#include "launch/data/classification_dataset.h"
#include "launch/data/gpt_dataset.h"

namespace tessera {
namespace {

using Tokens = std::shared_ptr<const IndexedDataset>;

/// Evaluation has masks of its own.
uint64_t eval_seed(const RunConfig& config) {
  return seed_for(static_cast<uint64_t>(config.run.seed), "eval");
}

std::shared_ptr<const Tokenizer> open_tokenizer(const RunConfig& config) {
  try {
    return make_tokenizer(config.data.tokenizer);
  } catch (const Error& error) {
    fail("data.tokenizer is {}: {} (`tessera tokenizer train` makes a vocabulary)",
         config.data.tokenizer, error.what());
  }
}

/// Every token needs its row of the embedding.
void check_vocabulary(const RunConfig& config, const Tokenizer& tokenizer) {
  require(
      tokenizer.vocab_size() <= config.model.vocab_size,
      "model.vocab_size is {}, but data.tokenizer is {}, which has {} tokens: choose {} or more",
      config.model.vocab_size, config.data.tokenizer, tokenizer.vocab_size(),
      tokenizer.vocab_size());
}

std::shared_ptr<const Dataset> gpt_samples(const RunConfig& config, const Tokens& tokens,
                                           Range range) {
  GptDataOptions options;
  options.separate_documents = config.data.separate_documents;
  options.loss_across_documents = config.data.loss_across_documents;
  return std::make_shared<const GptDataset>(tokens, range, config.model.seq_length, options);
}

std::shared_ptr<const Dataset> bert_samples(const RunConfig& config, const VocabularyTraits& traits,
                                            const Tokens& tokens, Range range, uint64_t seed) {
  BertDataOptions options;
  options.sentence_pairs = config.model.next_sentence;
  options.packing = config.data.short_samples == ShortSamples::pack;
  options.masking = config.mlm;
  return make_bert_dataset(tokens, range, config.model.seq_length, traits, options, seed);
}

/// Prepared tokens: those to train on, and those held out of them or of a dataset of their own.
/// `samples(tokens, range, seed)` makes samples of them.
template <typename Samples>
TrainingData open_tokens(const RunConfig& config, int64_t vocab_size, Samples&& samples) {
  const auto seed = static_cast<uint64_t>(config.run.seed);
  const auto train = std::make_shared<const IndexedDataset>(config.data.train, vocab_size);
  const TokenSplit parts = split_tokens(train->num_tokens(), config.data.eval_fraction);
  TrainingData data;
  data.train = samples(train, parts.train, seed);
  if (config.data.eval) {
    const auto eval = std::make_shared<const IndexedDataset>(*config.data.eval, vocab_size);
    data.eval = samples(eval, Range{0, eval->num_tokens()}, eval_seed(config));
  } else if (config.data.eval_fraction > 0.0) {
    data.eval = samples(train, parts.eval, eval_seed(config));
  }
  return data;
}

void check_token_types(const RunConfig& config, const LabelledTexts& texts) {
  require(
      !texts.has_pairs() || config.model.token_types != 1,
      "{} has pairs of texts, which have two types of tokens, but model.token_types is 1: choose "
      "2, or 0 for a model without such an embedding",
      texts.path());
}

void note_truncated(const LabelledTexts& texts, std::vector<std::string>& notes) {
  if (texts.num_truncated() == 0) return;
  notes.push_back(fmt::format("{}: {} of {} texts were cut to {} tokens", texts.path(),
                              texts.num_truncated(), texts.size(), texts.seq_length()));
}

Labels labels_of(const RunConfig& config) {
  Labels labels{config.model.num_labels};
  if (config.data.labels) labels.names = label_names(*config.data.labels);
  return labels;
}

/// Labelled texts, tokenized here.
TrainingData open_texts(const RunConfig& config, const Tokenizer& tokenizer,
                        const VocabularyTraits& traits) {
  const ClassificationEncoder encoder([&](std::string_view text) { return tokenizer.encode(text); },
                                      traits, config.model.seq_length, config.data.truncate);
  const Labels labels = labels_of(config);
  const auto train = std::make_shared<const LabelledTexts>(config.data.train, labels, encoder);
  check_token_types(config, *train);
  const TokenSplit parts = split_tokens(train->size(), config.data.eval_fraction);
  TrainingData data;
  note_truncated(*train, data.notes);
  data.train = std::make_shared<const ClassificationDataset>(train, parts.train);
  if (config.data.eval) {
    const auto eval = std::make_shared<const LabelledTexts>(*config.data.eval, labels, encoder);
    check_token_types(config, *eval);
    note_truncated(*eval, data.notes);
    data.eval = std::make_shared<const ClassificationDataset>(eval, Range{0, eval->size()});
  } else if (config.data.eval_fraction > 0.0) {
    data.eval = std::make_shared<const ClassificationDataset>(train, parts.eval);
  }
  return data;
}

TrainingData open_samples(const RunConfig& config, const Tokenizer& tokenizer) {
  if (!config.model.is_bert()) {
    // A GPT may learn from tokens that another program made, whatever data.tokenizer is.
    return open_tokens(config, config.model.vocab_size,
                       [&](const Tokens& tokens, Range range, uint64_t /*seed*/) {
                         return gpt_samples(config, tokens, range);
                       });
  }
  const VocabularyTraits traits = tokenizer.traits();
  if (config.model.head == Head::classification) return open_texts(config, tokenizer, traits);
  return open_tokens(config, tokenizer.vocab_size(),
                     [&](const Tokens& tokens, Range range, uint64_t seed) {
                       return bert_samples(config, traits, tokens, range, seed);
                     });
}

}  // namespace

TrainingData open_data(const RunConfig& config) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(config);
  check_vocabulary(config, *tokenizer);
  TrainingData data = open_samples(config, *tokenizer);
  data.tokenizer = tokenizer;
  return data;
}

}  // namespace tessera
