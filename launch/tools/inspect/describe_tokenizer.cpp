#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/support/text/utf8.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {
namespace {

/// Special tokens with their tasks, then other tokens that stand for their names.
std::string special_text(const Tokenizer& tokenizer) {
  constexpr size_t kMostOthers = 16;
  const SpecialTokens special = tokenizer.special();
  std::vector<int32_t> others = tokenizer.named_tokens();
  std::string text;
  const auto add = [&](std::string_view task, int32_t token) {
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : ", ", task, tokenizer.token_text(token),
                        token);
  };
  const auto add_task = [&](std::string_view task, std::optional<int32_t> token) {
    if (!token) return;
    add(task, *token);
    std::erase(others, *token);
  };
  add_task("unknown ", special.unknown);
  add_task("start ", special.start);
  add_task("end ", special.end);
  add_task("padding ", special.padding);
  add_task("mask ", special.mask);
  add_task("end of document ", tokenizer.end_of_document());
  for (size_t i = 0; i < std::min(others.size(), kMostOthers); ++i) add("", others[i]);
  if (others.size() > kMostOthers) text += fmt::format(", {} more", others.size() - kMostOthers);
  return text.empty() ? "none" : text;
}

std::string some_tokens(const Tokenizer& tokenizer) {
  constexpr int64_t kSome = 12;
  std::string text;
  const int64_t step = std::max<int64_t>(1, tokenizer.vocab_size() / kSome);
  for (int64_t token = 0; token < tokenizer.vocab_size(); token += step) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", token,
                        tokenizer.token_text(static_cast<int32_t>(token)));
  }
  return text;
}

}  // namespace

std::string describe_tokenizer(const Tokenizer& tokenizer, const std::optional<std::string>& text) {
  std::string lines = description_line("tokenizer", to_string(identity_of(tokenizer)));
  lines += description_line("special", special_text(tokenizer));
  lines += description_line("some", some_tokens(tokenizer));
  if (!text) return lines;
  const std::vector<int32_t> tokens = tokenizer.encode(*text);
  const int64_t invalid = tokenizer.count_invalid(*text);
  lines += description_line(
      "text",
      fmt::format(
          "{} bytes, {} tokens{}", text->size(), tokens.size(),
          invalid == 0 ? "" : fmt::format(", {} characters that replace invalid UTF-8", invalid)));
  for (const int32_t token : tokens) {
    lines += fmt::format("  {:>7}  {}\n", token, tokenizer.token_text(token));
  }
  return lines + description_line("decoded", Json(valid_utf8(tokenizer.decode(tokens))).dump());
}

}  // namespace tessera
