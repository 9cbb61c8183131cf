#include "launch/tools/predict/text_sample.h"

#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"

namespace tessera {
namespace {

Sample sample_of(std::vector<int32_t> tokens, const Tokenizer& tokenizer,
                 const ModelConfig& config) {
  Sample sample;
  sample.tokens = std::move(tokens);
  if (const ModelTraits traits = traits_of(config); traits.special_tokens) {
    const SpecialTokens special = tokenizer.special();
    require(
        special.start.has_value() && special.end.has_value(),
        "the tokenizer {} has no [CLS] and [SEP], which a text for {} must start and end with{}",
        tokenizer.kind(), traits.name,
        is_none(tokenizer) ? ": import the model again and name them, with --special-token" : "");
    sample.tokens.insert(sample.tokens.begin(), *special.start);
    sample.tokens.push_back(*special.end);
  }
  sample.targets.assign(sample.tokens.size(), kIgnoreTarget);
  sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
  return sample;
}

}  // namespace

Sample sample_of_text(const Tokenizer& tokenizer, const ModelConfig& config,
                      const std::string& text) {
  std::vector<int32_t> tokens = tokenizer.encode_with_special(text);
  require(!tokens.empty(), "the text {} has no token", quote(text));
  return sample_of(std::move(tokens), tokenizer, config);
}

Sample sample_of_ids(const Tokenizer& tokenizer, const ModelConfig& config, const std::string& ids,
                     const std::string& where) {
  std::vector<int32_t> tokens = parse_ids(ids, config.vocab_size, where);
  require(!tokens.empty(), "{} is empty, but needs at least one id", where);
  return sample_of(std::move(tokens), tokenizer, config);
}

std::vector<int32_t> masked_places(const Sample& sample, const Tokenizer& tokenizer,
                                   std::string_view what) {
  const auto mask = tokenizer.special().mask;
  require(mask.has_value(), "the checkpoint's tokenizer, {}, has no [MASK] to fill",
          tokenizer.kind());
  std::vector<int32_t> places;
  for (size_t t = 0; t < sample.tokens.size(); ++t) {
    if (sample.tokens[t] == *mask) places.push_back(static_cast<int32_t>(t));
  }
  require(!places.empty(), "{} has no mask: write {} where a word is missing", what,
          is_none(tokenizer) ? std::to_string(*mask) : tokenizer.token_text(*mask));
  return places;
}

Sample packed(const std::vector<Sample>& samples) {
  Sample row;
  for (const Sample& sample : samples) {
    row.tokens.insert(row.tokens.end(), sample.tokens.begin(), sample.tokens.end());
    row.targets.insert(row.targets.end(), sample.targets.begin(), sample.targets.end());
    row.document_lengths.insert(row.document_lengths.end(), sample.document_lengths.begin(),
                                sample.document_lengths.end());
  }
  return row;
}

}  // namespace tessera
