#include "launch/data/datasets/continuation_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/support/files/mapped_file.h"
#include "models/architecture.h"

namespace tessera {

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, const std::string& text,
                                 const std::string& where) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

int32_t first_token(const Tokenizer& tokenizer, const std::string& where) {
  const std::optional<int32_t> end = tokenizer.end_of_document();
  require(end.has_value(),
          "{}: the context has no text, and tokenizer {} has no token that ends a document, from "
          "which a text could begin: write a context",
          where, tokenizer.kind());
  return *end;
}

EncodedContext encode_context(const Tokenizer& tokenizer, const std::string& context,
                              const std::string& where) {
  const size_t end = context.find_last_not_of(" \t\n\r\f\v") + 1;  // 0 if there is no text
  EncodedContext encoded{context.substr(0, end), context.substr(end), {}};
  if (encoded.text.empty()) {
    encoded.tokens = {first_token(tokenizer, where)};
    return encoded;
  }
  encoded.tokens = encode_text(tokenizer, encoded.text, where);
  require(!encoded.tokens.empty(), "{}: the context has no tokens", where);
  return encoded;
}

std::vector<int32_t> encode_continuation(const Tokenizer& tokenizer, const EncodedContext& context,
                                         std::string_view continuation, const std::string& where) {
  const std::string text = context.text + context.space + std::string(continuation);
  std::vector<int32_t> tokens = encode_text(tokenizer, text, where);
  if (context.text.empty()) tokens.insert(tokens.begin(), context.tokens.front());
  require(tokens.size() > context.tokens.size(),
          "{} has no tokens of its own: with the context it has {} tokens, and the context alone "
          "has {}",
          where, tokens.size(), context.tokens.size());
  return tokens;
}

ContinuationDataset::ContinuationDataset(std::string path, const ModelConfig& model)
    : path_(std::move(path)),
      identity_(sampled_checksum(MappedFile(path_))),
      seq_length_(model.seq_length) {}

void ContinuationDataset::add(const std::vector<int32_t>& tokens, int64_t own,
                              const ModelConfig& model, const std::string& where) {
  require(own <= seq_length_,
          "{} has {} tokens, but model.seq_length is {}, so at most {} fit: shorten it", where, own,
          seq_length_, seq_length_);
  const int64_t kept = std::min(std::ssize(tokens), seq_length_ + 1), before = kept - own;
  require(before >= model.attention_prefix,
          "{} begins after {} tokens, but model.attention_prefix is {}: the first tokens see each "
          "other and are not predicted, so the context must have at least {}",
          where, before, model.attention_prefix, model.attention_prefix);
  const auto outside = std::ranges::find_if(
      tokens, [&](int32_t token) { return token < 0 || token >= model.vocab_size; });
  require(outside == tokens.end(), "{}: has the token {}, but model.vocab_size is {}", where,
          outside == tokens.end() ? 0 : *outside, model.vocab_size);
  num_truncated_ += kept < std::ssize(tokens) ? 1 : 0;
  pieces_.push_back({std::ssize(tokens_), before});
  tokens_.insert(tokens_.end(), tokens.end() - kept, tokens.end());
}

void ContinuationDataset::pack() {
  std::vector<int32_t> inputs;
  inputs.reserve(pieces_.size());
  for (int64_t i = 0; i < num_continuations(); ++i) {
    inputs.push_back(narrow<int32_t>(tokens_of(i).size() - 1));
  }
  rows_ = pack_rows(inputs, seq_length_);
}

Range ContinuationDataset::tokens_of(int64_t continuation) const {
  const auto i = static_cast<size_t>(continuation);
  return {pieces_[i].begin, i + 1 < pieces_.size() ? pieces_[i + 1].begin : std::ssize(tokens_)};
}

int64_t ContinuationDataset::num_tokens(int64_t continuation) const {
  return tokens_of(continuation).size() - pieces_[static_cast<size_t>(continuation)].context;
}

void ContinuationDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}", path_,
          sample, num_samples());
  out.clear();
  for (const int64_t continuation : rows_.row(sample)) {
    const Range tokens = tokens_of(continuation);
    const int64_t first = tokens.begin + pieces_[static_cast<size_t>(continuation)].context;
    for (int64_t next = tokens.begin + 1; next < tokens.end; ++next) {
      const auto i = static_cast<size_t>(next);
      out.tokens.push_back(tokens_[i - 1]);
      out.targets.push_back(next >= first ? tokens_[i] : kIgnoreTarget);
    }
    out.document_lengths.push_back(narrow<int32_t>(tokens.size() - 1));
    out.labels.push_back(narrow<int32_t>(continuation));
  }
}

std::string truncation_note(const ContinuationDataset& dataset) {
  if (dataset.num_truncated() == 0) return "";
  return fmt::format(
      "; the contexts of {} were cut at their beginning to fit into model.seq_length, {}",
      dataset.num_truncated(), dataset.seq_length());
}

void require_next_token(const std::string& path, const ModelConfig& model, std::string_view what) {
  const ModelTraits traits = traits_of(model);
  require(traits.objective == Objective::causal_lm,
          "{}: a model that predicts the next token can {}, but the model is a {} that does not",
          path, what, traits.name);
}

}  // namespace tessera
