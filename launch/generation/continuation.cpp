#include "launch/generation/continuation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/layers/attention/key_value_cache.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

std::vector<int32_t> checked(std::vector<int32_t> prompt, const ModelConfig& config,
                             const Tokenizer& tokenizer, std::string_view where) {
  if (prompt.empty()) {
    // A document begins where the previous one ended.
    const auto begin = tokenizer.end_of_document();
    require(begin.has_value(),
            "{} is empty, and tokenizer {} has no end-of-document token to start from: pass a "
            "prompt",
            where, tokenizer.kind());
    prompt = {*begin};
  }
  for (const int32_t token : prompt) {
    require(token >= 0 && token < config.vocab_size,
            "{}: the prompt has token {}, but the model's vocabulary is 0 to {}", where, token,
            config.vocab_size - 1);
  }
  const int64_t prefix = config.attention_prefix;
  require(std::ssize(prompt) >= prefix,
          "{}: the prompt has {} tokens, but the first {} tokens of a text see each other "
          "(model.attention_prefix), so the model predicts only those after them: give a prompt of "
          "at least {} tokens",
          where, prompt.size(), prefix, prefix);
  return prompt;
}

/// How many of the newest tokens stay when the context is full.
size_t kept_tokens(const ModelConfig& config) {
  return static_cast<size_t>(
      std::max<int64_t>({1, config.seq_length / 2, config.attention_prefix}));
}

/// Runs the passes with the most memory: the first one, of `first` tokens of each text, one after
/// the context was full, if that may happen, and one of a single token. Returns the bytes of the
/// cache.
size_t largest_passes(Model& model, Arena& arena, int64_t rows, size_t first, bool fills) {
  const ModelConfig& config = model.config();
  KeyValueCache cache = model.make_cache(rows);
  const auto read = [&](int64_t count) {
    arena.reset();
    model.extend(generation_context(arena, count),
                 Tensor(nullptr, {rows, count}, DType::i32, kMeta), cache);
  };
  read(static_cast<int64_t>(first));
  cache.clear();
  if (fills) read(static_cast<int64_t>(kept_tokens(config)));
  cache.clear();
  cache.advance(config.seq_length - 1);
  read(1);
  return cache.bytes();
}

/// The passes of a model over several texts, which all have read the same number of tokens.
class Passes {
 public:
  /// `texts` must outlive this.
  Passes(QueriedModel& model, std::span<const SampledText> texts)
      : model_(model),
        texts_(texts),
        cache_(model.model().make_cache(std::ssize(texts))),
        count_(static_cast<size_t>(model.config().seq_length)),
        logits_({std::ssize(texts), model.config().vocab_size}, DType::f32) {
    const size_t context = count_;
    bool fills = false;
    for (const SampledText& text : texts) {
      const size_t size = text.tokens().size(), within = std::min(size, context);
      count_ = std::min(count_, within);
      positions_.push_back(size - within);
      fills = fills || text.most_left() > static_cast<int64_t>(context - within) + 1;
    }
    const int64_t rows = std::ssize(texts);
    arena_ = &model.reserve([&](Model& dry, const StepContext& ctx) {
      largest_passes(dry, ctx.arena, rows, count_, fills);
    });
    const size_t most = fills ? std::max(count_, kept_tokens(model.config())) : count_;
    tokens_ = OwnedTensor({rows * static_cast<int64_t>(most)}, DType::i32);
    on_device_ = OwnedTensor(tokens_.tensor.shape(), DType::i32, arena_->device());
  }

  /// Reads the next tokens of all texts.
  void run() {
    const size_t kept = kept_tokens(model_.config());
    if (cache_.length() + static_cast<int64_t>(count_) > model_.config().seq_length) {
      cache_.clear();
      for (size_t& position : positions_) position -= kept - count_;
      count_ = kept;
    }
    int32_t* next = tokens_.tensor.data<int32_t>();
    for (size_t i = 0; i < texts_.size(); ++i) {
      // A text that is done repeats its last token, whose logits are ignored.
      const std::span<const int32_t> all = texts_[i].tokens();
      for (size_t k = 0; k < count_; ++k) {
        *next++ = all[std::min(positions_[i] + k, all.size() - 1)];
      }
      positions_[i] += count_;
    }
    const int64_t rows = std::ssize(texts_), columns = static_cast<int64_t>(count_);
    const Tensor read = on_device_.tensor.slice(0, rows * columns);
    copy(tokens_.tensor.slice(0, rows * columns), read);
    arena_->reset();
    const StepContext ctx = generation_context(*arena_, columns);
    copy(model_.model().extend(ctx, read.view({rows, columns}), cache_), logits_.tensor);
    count_ = 1;
  }

  /// Whether a text has prompt tokens that were not read.
  bool in_prompt(size_t text) const { return positions_[text] < texts_[text].tokens().size(); }

  /// The logits (V) of the token that follows what was read of a text.
  std::span<const float> logits(size_t text) const {
    const auto row = static_cast<int64_t>(text);
    return logits_.tensor.slice(row, row + 1).span<float>();
  }

 private:
  QueriedModel& model_;
  std::span<const SampledText> texts_;
  KeyValueCache cache_;
  size_t count_;                   // the number of tokens of each text that the next pass reads
  std::vector<size_t> positions_;  // of each text: the first of these tokens
  Arena* arena_ = nullptr;
  OwnedTensor tokens_, on_device_;  // the tokens of a pass, (rows × count_)
  OwnedTensor logits_;              // (rows, V)
};

}  // namespace

std::vector<int32_t> encode_prompt(const ModelConfig& config, const Tokenizer& tokenizer,
                                   std::string_view prompt, std::string_view where) {
  std::vector<int32_t> tokens;
  try {
    tokens = tokenizer.encode(prompt);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
  return checked(std::move(tokens), config, tokenizer, where);
}

std::vector<int32_t> encode_chat_prompt(const ModelConfig& config, const Tokenizer& tokenizer,
                                        const Chat& chat, std::string_view message,
                                        std::string_view where) {
  const Message messages[] = {{Role::user, message}};
  return encode_messages(config, tokenizer, chat, messages, where);
}

std::vector<int32_t> encode_messages(const ModelConfig& config, const Tokenizer& tokenizer,
                                     const ChatTemplate& form, std::span<const Message> messages,
                                     std::string_view where) {
  return checked(form.prompt(messages, where), config, tokenizer, where);
}

std::vector<int32_t> encode_messages(const ModelConfig& config, const Tokenizer& tokenizer,
                                     const Chat& chat, std::span<const Message> messages,
                                     std::string_view where) {
  if (!chat.system) return encode_messages(config, tokenizer, chat.form, messages, where);
  require(messages.empty() || messages[0].role != Role::system,
          "{}: the conversation has a system message, and --system gives another: leave one out",
          where);
  std::vector<Message> all = {{Role::system, *chat.system}};
  all.insert(all.end(), messages.begin(), messages.end());
  return encode_messages(config, tokenizer, chat.form, all, where);
}

std::vector<int32_t> encode_prompt_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                                       std::string_view ids, std::string_view where) {
  return checked(parse_ids(ids, config.vocab_size, where), config, tokenizer, where);
}

void require_fits(const ModelConfig& config, std::span<const int32_t> prompt,
                  std::string_view where, std::string_view advice) {
  require(std::ssize(prompt) <= config.seq_length,
          "{}: the prompt has {} tokens, but the model sees {} at once (model.seq_length): {}",
          where, prompt.size(), config.seq_length, advice);
}

void truncate_prompt(const ModelConfig& config, int64_t max_tokens, std::vector<int32_t>& prompt) {
  const int64_t most = config.seq_length - max_tokens;
  const int64_t least = std::max<int64_t>(1, config.attention_prefix);
  require(most >= least,
          "--truncate cuts prompts so that --max-tokens, {}, new tokens fit behind them, but "
          "model.seq_length is {}, and a prompt needs {}: choose at most {} new tokens",
          max_tokens, config.seq_length, least, config.seq_length - least);
  if (std::ssize(prompt) > most) prompt.erase(prompt.begin(), prompt.end() - most);
}

void continue_texts(QueriedModel& model, std::span<SampledText> texts, const OnToken& on_token) {
  const MemoryUse use("", kSplitAdvice);
  std::optional<Passes> passes;
  all_or_none(model.tp(), [&] { passes.emplace(model, texts); });
  while (!std::ranges::all_of(texts, &SampledText::done)) {
    passes->run();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].done() || passes->in_prompt(i)) continue;
      texts[i].advance(passes->logits(i));
      if (on_token) on_token(texts[i]);
    }
  }
}

size_t dry_continuation(Model& model, Arena& arena) {
  return largest_passes(model, arena, 1, static_cast<size_t>(model.config().seq_length), true);
}

}  // namespace tessera
