#include "launch/data/datasets/text_pairs.h"

#include <optional>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, std::string_view text,
                                 std::string_view name, std::string_view where) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    fail("{}, {}: {}", where, name, error.what());
  }
}

/// Cuts a text to `most` tokens. Returns whether it was cut.
bool fit(std::vector<int32_t>& tokens, std::string_view name, int64_t most, std::string_view key,
         bool truncate, std::string_view where) {
  require(!tokens.empty(), "{}: the {} has no tokens", where, name);
  if (std::ssize(tokens) <= most) return false;
  require(truncate,
          "{}: the {} has {} tokens, but {} is {}, which leaves room for {}: shorten it, truncate "
          "it (data.truncate=true in training, --truncate in generate), or train with a larger {}",
          where, name, tokens.size(), key, most + 1, most, key);
  tokens.resize(static_cast<size_t>(most));
  return true;
}

}  // namespace

std::optional<SequenceEnds> find_sequence_ends(const Tokenizer& tokenizer) {
  std::optional<int32_t> end = tokenizer.end_of_document();
  if (!end) end = tokenizer.special().end;
  if (!end) return std::nullopt;
  return SequenceEnds{tokenizer.special().padding.value_or(*end), *end};
}

SequenceEnds sequence_ends(const Tokenizer& tokenizer) {
  const std::optional<SequenceEnds> ends = find_sequence_ends(tokenizer);
  require(ends.has_value(),
          "tokenizer {} has no token that ends a text, which an encoder-decoder needs: choose one "
          "with an end-of-document token or [SEP]",
          tokenizer.kind());
  return *ends;
}

PairEncoder::PairEncoder(const Tokenizer& tokenizer, int64_t source_length, int64_t seq_length,
                         bool truncate)
    : tokenizer_(tokenizer),
      source_length_(source_length),
      seq_length_(seq_length),
      truncate_(truncate),
      ends_(sequence_ends(tokenizer)) {
  require(source_length >= 2 && seq_length >= 2,
          "model.source_length is {} and model.seq_length {}, but an encoder-decoder needs 2 or "
          "more of each",
          source_length, seq_length);
}

bool PairEncoder::encode_source(std::string_view source, std::string_view where,
                                Sample& out) const {
  return add_source(encode_text(tokenizer_, source, "source", where), where, out);
}

bool PairEncoder::add_source(std::vector<int32_t> tokens, std::string_view where,
                             Sample& out) const {
  const bool truncated =
      fit(tokens, "source", source_length_ - 1, "model.source_length", truncate_, where);
  out.source_tokens = std::move(tokens);
  out.source_tokens.push_back(ends_.end);
  out.source_lengths.assign(1, static_cast<int32_t>(out.source_tokens.size()));
  return truncated;
}

bool PairEncoder::encode(std::string_view source, std::string_view target, std::string_view where,
                         Sample& out) const {
  out.clear();
  bool truncated = encode_source(source, where, out);
  out.targets = encode_text(tokenizer_, target, "target", where);
  truncated = fit(out.targets, "target", seq_length_ - 1, "model.seq_length", truncate_, where) ||
              truncated;
  out.tokens.assign(1, ends_.start);
  out.tokens.insert(out.tokens.end(), out.targets.begin(), out.targets.end());
  out.targets.push_back(ends_.end);
  out.document_lengths.assign(1, static_cast<int32_t>(out.tokens.size()));
  return truncated;
}

std::shared_ptr<const TextSamples> read_pairs(const std::string& path, const PairEncoder& encoder,
                                              const RowOptions& options) {
  auto pairs = std::make_shared<TextSamples>(path, "pair", encoder.seq_length());
  Sample sample;
  RowReader rows(path, {{"source", "target"}}, options);
  while (rows.next()) {
    const bool truncated =
        encoder.encode(rows.text("source"), rows.text("target"), rows.where(), sample);
    pairs->add(sample, truncated);
  }
  pairs->require_samples();
  return pairs;
}

}  // namespace tessera
