#include "launch/data/datasets/choice_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"
#include "launch/support/text/utf8.h"
#include "models/architecture.h"

namespace tessera {
namespace {

std::string name_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for_each_utf8_character(text, [&](const Utf8Character&) { ++count; });
  return count;
}

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, const std::string& text,
                                 const std::string& where) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

/// A context as its tokens, and the white space that belongs to the choices after it.
struct EncodedContext {
  std::string text, space;
  std::vector<int32_t> tokens;
};

EncodedContext encode_context(const Tokenizer& tokenizer, const std::string& context,
                              const std::string& where) {
  const size_t end = context.find_last_not_of(" \t\n\r\f\v") + 1;  // 0 if there is no text
  EncodedContext encoded{context.substr(0, end), context.substr(end) + " ", {}};
  if (!encoded.text.empty()) {
    encoded.tokens = encode_text(tokenizer, encoded.text, where);
    require(!encoded.tokens.empty(), "{}: the context has no tokens", where);
    return encoded;
  }
  const std::optional<int32_t> end_token = tokenizer.end_of_document();
  require(end_token.has_value(),
          "{}: the context has no text, and tokenizer {} has no token that ends a document, from "
          "which the choices could continue: write a context",
          where, tokenizer.kind());
  encoded.tokens = {*end_token};
  return encoded;
}

/// The tokens of a context with a choice. The first tokens may differ from those of the context
/// alone.
std::vector<int32_t> encode_choice(const Tokenizer& tokenizer, const EncodedContext& context,
                                   const std::string& choice, const std::string& where) {
  std::vector<int32_t> tokens =
      encode_text(tokenizer, context.text + context.space + choice, where);
  if (context.text.empty()) tokens.insert(tokens.begin(), context.tokens.front());
  require(tokens.size() > context.tokens.size(),
          "{} has no tokens of its own: with the context it has {} tokens, and the context alone "
          "has {}",
          where, tokens.size(), context.tokens.size());
  return tokens;
}

}  // namespace

ChoiceDataset::ChoiceDataset(const std::string& path, const Tokenizer& tokenizer,
                             const ModelConfig& model)
    : path_(path), name_(name_of(path)), seq_length_(model.seq_length) {
  for_each_choice_line(path, [&](const ChoiceLine& line) { add(line, tokenizer, model); });
  require(num_questions() > 0, "{}: there is no question", path_);
  identity_ = sampled_checksum(MappedFile(path));
  std::vector<int32_t> inputs;
  inputs.reserve(choices_.size());
  for (int64_t i = 0; i < num_choices(); ++i) {
    inputs.push_back(narrow<int32_t>(tokens_of(i).size() - 1));
  }
  rows_ = pack_rows(inputs, seq_length_);
}

void ChoiceDataset::add(const ChoiceLine& line, const Tokenizer& tokenizer,
                        const ModelConfig& model) {
  const std::string where = fmt::format("{}:{}", path_, line.number);
  const EncodedContext context = encode_context(tokenizer, line.context, where);
  questions_.push_back({line.number, num_choices(), line.answer});
  for (size_t i = 0; i < line.choices.size(); ++i) {
    const std::string here = fmt::format("{}: choice {}", where, i);
    const std::vector<int32_t> tokens = encode_choice(tokenizer, context, line.choices[i], here);
    const int64_t own = std::ssize(tokens) - std::ssize(context.tokens);
    require(own <= seq_length_,
            "{} has {} tokens, but model.seq_length is {}, so at most {} fit: shorten it", here,
            own, seq_length_, seq_length_);
    const int64_t kept = std::min(std::ssize(tokens), seq_length_ + 1), before = kept - own;
    require(before >= model.attention_prefix,
            "{} begins after {} tokens, but model.attention_prefix is {}: the first tokens see "
            "each other and are not predicted, so the context must have at least {}",
            here, before, model.attention_prefix, model.attention_prefix);
    const auto outside = std::ranges::find_if(
        tokens, [&](int32_t token) { return token < 0 || token >= model.vocab_size; });
    require(outside == tokens.end(), "{}: has the token {}, but model.vocab_size is {}", here,
            outside == tokens.end() ? 0 : *outside, model.vocab_size);
    num_truncated_ += kept < std::ssize(tokens) ? 1 : 0;
    choices_.push_back({std::ssize(tokens_), before, count_characters(line.choices[i])});
    tokens_.insert(tokens_.end(), tokens.end() - kept, tokens.end());
  }
}

Range ChoiceDataset::choices(int64_t question) const {
  const int64_t next = question + 1;
  return {at(question).first_choice,
          next < num_questions() ? at(next).first_choice : num_choices()};
}

Range ChoiceDataset::tokens_of(int64_t choice) const {
  const auto i = static_cast<size_t>(choice);
  return {choices_[i].begin, i + 1 < choices_.size() ? choices_[i + 1].begin : std::ssize(tokens_)};
}

void ChoiceDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}", path_,
          sample, num_samples());
  out.clear();
  for (const int64_t choice : rows_.row(sample)) {
    const Range tokens = tokens_of(choice);
    const int64_t first = tokens.begin + choices_[static_cast<size_t>(choice)].context;
    for (int64_t next = tokens.begin + 1; next < tokens.end; ++next) {
      const auto i = static_cast<size_t>(next);
      out.tokens.push_back(tokens_[i - 1]);
      out.targets.push_back(next >= first ? tokens_[i] : kIgnoreTarget);
    }
    out.document_lengths.push_back(narrow<int32_t>(tokens.size() - 1));
    out.labels.push_back(narrow<int32_t>(choice));
  }
}

std::string summary_of(const ChoiceDataset& dataset) {
  std::string text = fmt::format("{}: {} questions with {} choices", dataset.path(),
                                 dataset.num_questions(), dataset.num_choices());
  if (dataset.num_truncated() > 0) {
    text += fmt::format(
        "; the contexts of {} were cut at their beginning to fit into "
        "model.seq_length, {}",
        dataset.num_truncated(), dataset.seq_length());
  }
  return text;
}

std::vector<std::shared_ptr<const ChoiceDataset>> open_choices(
    const std::vector<std::string>& paths, const Tokenizer& tokenizer, const ModelConfig& model) {
  if (paths.empty()) return {};
  const ModelTraits traits = traits_of(model);
  require(traits.objective == Objective::causal_lm,
          "{}: a model that predicts the next token can choose between texts, but the model is a "
          "{} that does not",
          paths[0], traits.name);
  std::vector<std::shared_ptr<const ChoiceDataset>> opened;
  for (const std::string& path : paths) {
    const std::string name = name_of(path);
    const bool is_plain = std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    });
    require(is_plain && !name.empty(),
            "{}: results are named after the file, but its name without extension, {}, has other "
            "characters than letters, digits, - and _: rename it",
            path, quote(name));
    for (const auto& other : opened) {
      require(other->name() != name,
              "{} and {}: results are named after the files, but both are called {}: rename one",
              other->path(), path, name);
    }
    opened.push_back(std::make_shared<const ChoiceDataset>(path, tokenizer, model));
  }
  return opened;
}

}  // namespace tessera
