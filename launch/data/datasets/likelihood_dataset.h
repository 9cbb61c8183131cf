#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/continuation_dataset.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// Texts whose log-likelihood is asked for. A line of the file is an object of one of these kinds:
///
///     {"context": "2 + 2 =", "continuation": " 4"}    of the continuation after the context
///     {"text": "Once upon a time"}                     of a whole text of any length
///
/// Both follow lm-evaluation-harness. Nothing is added between a context and its continuation. A
/// context may also be a list of messages (chat_messages.h), whose continuation is the reply, or
/// the rest of a reply that the last message begins. It is tokenized alone; as there, white space
/// that a template writes before a reply is of the continuation, too. A
/// text begins after the token that ends a document. Each of its tokens is predicted once: the
/// first seq_length of them in one window, and so on; the last window reads as many tokens before
/// its own as fit. Its continuations are these windows.
class LikelihoodDataset final : public ContinuationDataset {
 public:
  /// Throws, naming file and line, at any other line, as encode_continuation() and
  /// ContinuationDataset::add() do, and if there is no line. The name ends in .jsonl. `chat` is
  /// called if a context has messages.
  LikelihoodDataset(const std::string& path, const Tokenizer& tokenizer, const ModelConfig& model,
                    const std::function<ChatTemplate()>& chat);

  int64_t num_lines() const { return std::ssize(first_) - 1; }
  /// The continuations of a line, from 0: one, or the windows of a text, none if it has no tokens.
  Range continuations(int64_t line) const;

 private:
  void add_continuation(const Json& line, const Tokenizer& tokenizer, const ModelConfig& model,
                        const std::function<const ChatTemplate&()>& chat, const std::string& where);
  void add_windows(const std::string& text, const Tokenizer& tokenizer, const ModelConfig& model,
                   const std::string& where);

  std::vector<int64_t> first_{0};  // continuation of each line, and their number
};

/// "pairs.jsonl: 100 lines", and how many contexts were cut.
std::string summary_of(const LikelihoodDataset& dataset);

}  // namespace tessera
