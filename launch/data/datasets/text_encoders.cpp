#include "launch/data/datasets/text_encoders.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/datasets/special_token_checks.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr int64_t kShortest = 5;  // [CLS], a token, [SEP], a token, [SEP]

/// Truncates the longer text until both have `most` tokens together.
void shorten(std::vector<int32_t>& a, std::vector<int32_t>& b, size_t most) {
  const size_t half = most / 2;
  const size_t b_size = std::min(b.size(), std::max(half, most - std::min(most, a.size())));
  const size_t a_size = std::min(a.size(), most - b_size);
  a.resize(a_size);
  b.resize(b_size);
}

}  // namespace

ClassificationEncoder::ClassificationEncoder(EncodeText encode, const VocabularyTraits& traits,
                                             int64_t seq_length, bool truncate)
    : encode_(std::move(encode)), seq_length_(seq_length), truncate_(truncate) {
  require_special_tokens(traits, {"start", "end"}, "classification");
  start_ = *traits.special.start;
  end_ = *traits.special.end;
  require(seq_length >= kShortest, "seq_length is {}, but must be at least {} for classification",
          seq_length, kShortest);
}

bool ClassificationEncoder::encode(std::string_view text, std::optional<std::string_view> text_pair,
                                   std::string_view where, Sample& out) const {
  const auto tokens_of = [&](std::string_view any) {
    try {
      return encode_(any);
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  };
  std::vector<int32_t> first = tokens_of(text), second;
  if (text_pair) second = tokens_of(*text_pair);
  const char* empty = first.empty() ? "text" : text_pair && second.empty() ? "text_pair" : nullptr;
  require(empty == nullptr, "{}: the {} has no tokens, but needs at least one", where,
          empty == nullptr ? "" : empty);

  const size_t specials = text_pair ? 3 : 2;
  const size_t length = first.size() + second.size() + specials;
  const bool too_long = length > static_cast<size_t>(seq_length_);
  require(
      !too_long || truncate_,
      "{}: has {} tokens, including {} special ones, but seq_length is {}: shorten the text, "
      "truncate it (data.truncate=true, or --truncate), or train with a larger model.seq_length",
      where, length, specials, seq_length_);
  if (too_long) shorten(first, second, static_cast<size_t>(seq_length_) - specials);

  out.clear();
  const auto append = [&](const std::vector<int32_t>& tokens) {
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.tokens.push_back(end_);
  };
  out.tokens.push_back(start_);
  append(first);
  out.token_types.assign(out.tokens.size(), 0);
  if (text_pair) append(second);
  out.token_types.resize(out.tokens.size(), 1);
  out.targets.assign(out.tokens.size(), kIgnoreTarget);
  out.document_lengths.push_back(static_cast<int32_t>(out.tokens.size()));
  return too_long;
}

WordEncoder::WordEncoder(const Tokenizer& tokenizer, int64_t seq_length, bool truncate)
    : tokenizer_(tokenizer), seq_length_(seq_length), truncate_(truncate) {
  const VocabularyTraits traits = tokenizer.traits();
  require_special_tokens(traits, {"start", "end"}, "token classification");
  start_ = *traits.special.start;
  end_ = *traits.special.end;
  require(seq_length >= kShortest,
          "seq_length is {}, but must be at least {} for token classification", seq_length,
          kShortest);
}

bool WordEncoder::encode(std::span<const std::string_view> words, std::span<const int32_t> labels,
                         std::string_view where, Sample& out) const {
  out.clear();
  out.tokens.push_back(start_);
  out.targets.push_back(kIgnoreTarget);
  const std::string space = tokenizer_.decodes_piecewise() ? " " : "";
  for (size_t i = 0; i < words.size(); ++i) {
    std::vector<int32_t> tokens;
    try {
      tokens = tokenizer_.encode(space + std::string(words[i]));
    } catch (const Error& error) {
      fail("{}: word {}: {}", where, i + 1, error.what());
    }
    require(!tokens.empty(),
            "{}: word {} of the sentence, {}, has no tokens, but needs one for its "
            "label: remove it",
            where, i + 1, quote(words[i]));
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.targets.push_back(labels.empty() ? 0 : labels[i]);
    out.targets.resize(out.tokens.size(), kIgnoreTarget);
  }
  const size_t most = static_cast<size_t>(seq_length_) - 1, length = out.tokens.size() + 1;
  const bool too_long = out.tokens.size() > most;
  require(!too_long || truncate_,
          "{}: the sentence has {} tokens, including 2 special ones, but seq_length is {}: split "
          "it, train with a larger model.seq_length or, if it is training data, truncate it "
          "(data.truncate=true)",
          where, length, seq_length_);
  if (too_long) {
    out.tokens.resize(most);
    out.targets.resize(most);
  }
  out.tokens.push_back(end_);
  out.targets.push_back(kIgnoreTarget);
  out.token_types.assign(out.tokens.size(), 0);
  out.document_lengths.push_back(static_cast<int32_t>(out.tokens.size()));
  return too_long;
}

std::shared_ptr<const TextSamples> read_labeled(const std::string& path, const Labels& labels,
                                                const ClassificationEncoder& encoder,
                                                const RowOptions& options) {
  auto texts = std::make_shared<TextSamples>(path, "text", encoder.seq_length());
  Sample sample;
  const auto add = [&](const LabeledLine& line) {
    const std::string where = fmt::format("{}:{}", path, line.number);
    const bool truncated = encoder.encode(line.text, line.text_pair, where, sample);
    sample.labels.push_back(line.label);
    sample.label_values.assign(line.values.begin(), line.values.end());
    texts->add(sample, truncated);
  };
  for_each_labeled_line(path, labels, add, options);
  texts->require_samples();
  return texts;
}

std::shared_ptr<const TextSamples> read_labeled(const std::string& path, const Labels& labels,
                                                const WordEncoder& encoder,
                                                const RowOptions& options) {
  auto texts = std::make_shared<TextSamples>(path, "text", encoder.seq_length());
  Sample sample;
  const auto add = [&](const LabeledSentence& sentence) {
    const std::string where = fmt::format("{}:{}", path, sentence.number);
    const bool truncated = encoder.encode(sentence.words, sentence.labels, where, sample);
    texts->add(sample, truncated);
  };
  for_each_labeled_sentence(path, labels, add, options);
  texts->require_samples();
  return texts;
}

}  // namespace tessera
