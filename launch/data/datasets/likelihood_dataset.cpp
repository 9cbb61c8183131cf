#include "launch/data/datasets/likelihood_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "launch/data/datasets/chat_messages.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/support/input/json_lines.h"

namespace tessera {
namespace {

constexpr std::string_view kScoredFields = "context and continuation, or text";  // for messages

/// The string in a field of a line.
std::string scored_field(const Json& line, const char* key, const std::string& where) {
  const auto found = line.find(key);
  require(found != line.end(), "{}: there is no \"{}\": a line must have {}", where, key,
          kScoredFields);
  require(found->is_string(), "{}: \"{}\" must be a string, but is {}", where, key,
          json_type(*found));
  return found->get<std::string>();
}

/// How many tokens at the end of a context have nothing but white space.
int64_t trailing_space(const Tokenizer& tokenizer, const std::vector<int32_t>& context) {
  const auto is_space = [&](int32_t token) {
    const std::string text = tokenizer.decode(std::vector<int32_t>{token});
    return !text.empty() && text.find_first_not_of(" \t\n\r\f\v") == std::string::npos;
  };
  const auto end = std::find_if_not(context.rbegin(), context.rend() - 1, is_space);
  return end - context.rbegin();
}

}  // namespace

LikelihoodDataset::LikelihoodDataset(const std::string& path, const Tokenizer& tokenizer,
                                     const ModelConfig& model,
                                     const std::function<ChatTemplate()>& chat)
    : ContinuationDataset(path, model) {
  require(has_json_rows(path),
          "{}: a file of texts to score must have a name that ends in .jsonl or .json", path);
  require_next_token(path, model, "score texts");
  std::optional<ChatTemplate> form;
  const auto chosen = [&]() -> const ChatTemplate& {
    if (!form) form = chat();
    return *form;
  };
  RowReader rows(path, {});
  while (rows.next()) {
    const std::string& where = rows.where();
    const Json& line = rows.object();
    const bool is_text = line.contains("text");
    require(!is_text || (!line.contains("continuation") && !line.contains("context")),
            "{}: there is a \"text\" beside a \"context\" or \"continuation\": a line must have "
            "{}",
            where, kScoredFields);
    if (is_text) {
      add_windows(scored_field(line, "text", where), tokenizer, model, where + ": the text");
    } else {
      add_continuation(line, tokenizer, model, chosen, where);
    }
    first_.push_back(num_continuations());
  }
  require(num_lines() > 0, "{}: there is no line", path);
  pack();
}

void LikelihoodDataset::add_continuation(const Json& line, const Tokenizer& tokenizer,
                                         const ModelConfig& model,
                                         const std::function<const ChatTemplate&()>& chat,
                                         const std::string& where) {
  const std::string here = where + ": the continuation";
  const auto context = line.find("context");
  if (context == line.end() || !context->is_array()) {
    const EncodedContext text =
        encode_context(tokenizer, scored_field(line, "context", where), where);
    const std::vector<int32_t> tokens =
        encode_continuation(tokenizer, text, scored_field(line, "continuation", where), here);
    return add(tokens, std::ssize(tokens) - std::ssize(text.tokens), model, here);
  }
  std::vector<Message> messages;
  add_messages(*context, where, " of the context", messages);
  const std::string continuation = scored_field(line, "continuation", where);
  const ChatTokens text = chat().continued_prompt(messages, continuation, where);
  const int64_t own = std::ranges::count(text.is_learned, true);
  const std::vector<int32_t> prompt(text.tokens.begin(), text.tokens.end() - own);
  add(text.tokens, trailing_space(tokenizer, prompt) + own, model, here);
}

void LikelihoodDataset::add_windows(const std::string& text, const Tokenizer& tokenizer,
                                    const ModelConfig& model, const std::string& where) {
  std::vector<int32_t> tokens = encode_text(tokenizer, text, where);
  tokens.insert(tokens.begin(), first_token(tokenizer, where));
  const int64_t size = std::ssize(tokens);  // of which the first is not predicted
  for (int64_t begin = 1; begin < size;) {
    const int64_t end = std::min(begin + seq_length(), size);
    const int64_t before = std::max<int64_t>(end - seq_length() - 1, 0);
    add({tokens.begin() + before, tokens.begin() + end}, end - begin, model, where);
    begin = end;
  }
}

Range LikelihoodDataset::continuations(int64_t line) const {
  const auto i = static_cast<size_t>(line);
  return {first_[i], first_[i + 1]};
}

std::string summary_of(const LikelihoodDataset& dataset) {
  return fmt::format("{}: {} lines{}", dataset.path(), dataset.num_lines(),
                     truncation_note(dataset));
}

}  // namespace tessera
