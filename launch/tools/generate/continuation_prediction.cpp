#include "launch/tools/generate/continuation_prediction.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/data/datasets/chat_messages.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

constexpr std::string_view kContinuationName = "generated_text";

class ContinuationPrediction final : public FilePrediction {
 public:
  ContinuationPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                         const ContinuationOptions& options, const FilePredictionOptions& file)
      : tokenizer_(tokenizer),
        options_(options),
        format_(file.format),
        context_(config.seq_length) {
    for_each_prompt(file.input, [&](const PromptLine& line) {
      const std::string where = fmt::format("{}:{}", file.input, line.number);
      prompts_.push_back(encode(config, line, where));
      if (file.truncate) {
        truncate_prompt(config, options.ends.max_tokens, prompts_.back());
      } else {
        require_fits(config, prompts_.back(), where, kTruncateAdvice);
      }
    });
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
  std::vector<int32_t> encode(const ModelConfig& config, const PromptLine& line,
                              const std::string& where) const {
    const std::optional<Chat>& chat = options_.chat;
    if (!line.messages.empty()) {
      require(chat.has_value(),
              "{}: the prompt is a list of messages: read them as such with --chat auto", where);
      return encode_messages(config, tokenizer_, *chat, line.messages, where);
    }
    if (chat) return encode_chat_prompt(config, tokenizer_, *chat, line.text, where);
    if (is_none(tokenizer_)) return encode_prompt_ids(config, tokenizer_, line.text, where);
    return encode_prompt(config, tokenizer_, line.text, where);
  }

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
