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

std::vector<int32_t> encode_line(const ModelConfig& config, const Tokenizer& tokenizer,
                                 const std::optional<Chat>& chat, const PromptLine& line,
                                 const std::string& where) {
  if (!line.messages.empty()) {
    require(chat.has_value(),
            "{}: the prompt is a list of messages: read them as such with --chat auto", where);
    return encode_messages(config, tokenizer, *chat, line.messages, where);
  }
  if (chat) return encode_chat_prompt(config, tokenizer, *chat, line.text, where);
  if (is_none(tokenizer)) return encode_prompt_ids(config, tokenizer, line.text, where);
  return encode_prompt(config, tokenizer, line.text, where);
}

}  // namespace

std::unique_ptr<const FilePrediction> continuation_prediction(const ModelConfig& config,
                                                              const Tokenizer& tokenizer,
                                                              const ContinuationOptions& options,
                                                              const FilePredictionOptions& file) {
  auto prediction =
      std::make_unique<FilePrediction>(FilePrediction{file.format, {"generated_text"}});
  prediction->input_columns = {};
  const auto samples = static_cast<size_t>(file.samples);
  const auto prompts = std::make_shared<std::vector<std::vector<int32_t>>>();
  const auto add = [&](const PromptLine& line) {
    const std::string where = fmt::format("{}:{}", file.input, line.number);
    std::vector<int32_t> prompt = encode_line(config, tokenizer, options.chat, line, where);
    if (file.truncate) {
      truncate_prompt(config, options.ends.max_tokens, prompt);
    } else {
      require_fits(config, prompt, where, kTruncateAdvice);
    }
    prediction->inputs.insert(prediction->inputs.end(), samples, Json::object());
    prompts->insert(prompts->end(), samples, prompt);
  };
  for_each_prompt(file.input, add, {file.columns});
  require(!prompts->empty(), "{}: there is no prompt", file.input);

  // How many tokens of a prompt the model reads.
  const auto length = [prompts, context = config.seq_length](int64_t number) {
    return std::min<int64_t>(std::ssize((*prompts)[static_cast<size_t>(number)]), context);
  };
  std::vector<int64_t>& order = prediction->order;
  order.resize(prompts->size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, length);
  // Longer prompts are read token by token once the shortest one has been read. That costs at most
  // a quarter of the passes that generate.
  prediction->may_share = [order, length, most_apart = options.ends.max_tokens / 4](int64_t first,
                                                                                    int64_t place) {
    return length(order[static_cast<size_t>(place)]) - length(order[static_cast<size_t>(first)]) <=
           most_apart;
  };
  prediction->predict = [prompts, &tokenizer, options](TextModel& model,
                                                       std::span<const int64_t> numbers) {
    std::vector<SampledText> texts;
    for (const int64_t number : numbers) {
      texts.emplace_back(options.sampling, tokenizer, options.ends,
                         (*prompts)[static_cast<size_t>(number)], number, options.start());
    }
    continue_texts(model, texts);
    std::vector<Prediction> found;
    for (SampledText& text : texts) {
      const std::string generated = text.text().finish();
      found.push_back({{{"generated_text", generated}}, {{generated}}});
    }
    return found;
  };
  return prediction;
}

}  // namespace tessera
