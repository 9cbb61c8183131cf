#include "launch/tools/generate/continuation.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/data/datasets/text_fields.h"
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
/// the context was full, if that may happen, and one of a single token.
void largest_passes(Model& model, const StepContext& ctx, int64_t rows, size_t first, bool fills) {
  const ModelConfig& config = model.config();
  KeyValueCache cache = model.make_cache(rows);
  const auto read = [&](int64_t count) {
    ctx.arena.reset();
    model.extend(ctx, Tensor(nullptr, {rows, count}, DType::i32, kMeta), cache);
  };
  read(static_cast<int64_t>(first));
  cache.clear();
  if (fills) read(static_cast<int64_t>(kept_tokens(config)));
  cache.clear();
  cache.advance(config.seq_length - 1);
  read(1);
}

/// The passes of a model over several texts, which all have read the same number of tokens.
class Passes {
 public:
  /// `texts` must outlive this.
  Passes(TextModel& model, std::span<const SampledText> texts)
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
    arena_ = &model.reserve(
        [&](Model& dry, const StepContext& ctx) { largest_passes(dry, ctx, rows, count_, fills); });
    const size_t most = fills ? std::max(count_, kept_tokens(model.config())) : count_;
    tokens_ = OwnedTensor({rows * static_cast<int64_t>(most)}, DType::i32);
    on_device_ = OwnedTensor(tokens_.tensor.shape(), DType::i32, model.device());
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
    copy(model_.model().extend(StepContext{*arena_}, read.view({rows, columns}), cache_),
         logits_.tensor);
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
  TextModel& model_;
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
  std::vector<Message> messages;
  if (chat.system) messages.push_back({Role::system, *chat.system});
  messages.push_back({Role::user, message});
  return checked(chat.form.prompt(messages, where), config, tokenizer, where);
}

std::vector<int32_t> encode_prompt_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                                       std::string_view ids, std::string_view where) {
  return checked(parse_ids(ids, config.vocab_size, where), config, tokenizer, where);
}

void continue_texts(TextModel& model, std::span<SampledText> texts, const OnToken& on_token) {
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

namespace {

constexpr std::array<std::string_view, 1> kPromptNames = {"prompt"};
constexpr TextFields kPromptFields = {kPromptNames, 1, "prompt"};
constexpr std::string_view kContinuationName = "generated_text";

class ContinuationPrediction final : public FilePrediction {
 public:
  ContinuationPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                         const ContinuationOptions& options, const FilePredictionOptions& file)
      : tokenizer_(tokenizer),
        options_(options),
        format_(file.format),
        context_(config.seq_length) {
    const auto encode = is_none(tokenizer) ? encode_prompt_ids : encode_prompt;
    const auto add = [&](std::string_view prompt, int64_t number) {
      const std::string where = fmt::format("{}:{}", file.input, number);
      prompts_.push_back(options.chat
                             ? encode_chat_prompt(config, tokenizer, *options.chat, prompt, where)
                             : encode(config, tokenizer, prompt, where));
    };
    for_each_first_text(file.input, kPromptFields, add);
    require(!prompts_.empty(), "{}: there is no prompt", file.input);
    order_.resize(prompts_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](int64_t number) { return length(number); });
  }

  int64_t size() const override { return std::ssize(prompts_); }

  std::span<const int64_t> order() const override { return order_; }

  /// Longer prompts are read token by token once the shortest one has been read. That costs at most
  /// a quarter of the passes that generate.
  std::vector<Range> batches(int64_t rows) const override {
    const int64_t most_apart = options_.ends.max_tokens / 4;
    const auto length_at = [&](int64_t place) {
      return length(order_[static_cast<size_t>(place)]);
    };
    std::vector<Range> batches;
    for (int64_t place = 0; place < size(); ++place) {
      const bool fits = !batches.empty() && batches.back().size() < rows &&
                        length_at(place) - length_at(batches.back().begin) <= most_apart;
      if (!fits) batches.push_back({place, place});
      batches.back().end = place + 1;
    }
    return batches;
  }

  std::string header() const override { return text_header(format_, kContinuationName); }

  std::string lines(TextModel& model, Range places) const override {
    std::vector<SampledText> texts;
    for (int64_t place = places.begin; place < places.end; ++place) {
      const int64_t number = order_[static_cast<size_t>(place)];
      texts.emplace_back(options_.sampling, tokenizer_, options_.ends, prompt(number), number,
                         options_.start());
    }
    continue_texts(model, texts);
    std::string all;
    for (SampledText& text : texts) {
      all += text_line(format_, kContinuationName, text.text().finish());
    }
    return all;
  }

 private:
  const std::vector<int32_t>& prompt(int64_t number) const {
    return prompts_[static_cast<size_t>(number)];
  }

  /// How many tokens of a prompt the model reads.
  int64_t length(int64_t number) const {
    return std::min<int64_t>(std::ssize(prompt(number)), context_);
  }

  const Tokenizer& tokenizer_;
  ContinuationOptions options_;
  PredictionFormat format_;
  int64_t context_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<int64_t> order_;  ///< the prompts' numbers by length
};

}  // namespace

std::unique_ptr<const FilePrediction> continuation_prediction(const ModelConfig& config,
                                                              const Tokenizer& tokenizer,
                                                              const ContinuationOptions& options,
                                                              const FilePredictionOptions& file) {
  return std::make_unique<const ContinuationPrediction>(config, tokenizer, options, file);
}

}  // namespace tessera
