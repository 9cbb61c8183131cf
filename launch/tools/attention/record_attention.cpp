#include "launch/tools/attention/record_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "launch/tools/predict/predict.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The chosen indices, sorted and unique, or all `count`.
std::vector<int64_t> chosen(std::vector<int64_t> choice, int64_t count, const char* what) {
  if (choice.empty()) {
    choice.resize(static_cast<size_t>(count));
    std::iota(choice.begin(), choice.end(), 0);
  }
  for (const int64_t i : choice) {
    require(i >= 0 && i < count, "--{} is {}, but the model has {}s 0 to {}", what, i, what,
            count - 1);
  }
  std::sort(choice.begin(), choice.end());
  choice.erase(std::unique(choice.begin(), choice.end()), choice.end());
  return choice;
}

/// The document number of each token.
std::vector<size_t> documents_of(const Sample& sample) {
  std::vector<size_t> documents;
  for (size_t i = 0; i < sample.document_lengths.size(); ++i) {
    documents.insert(documents.end(), static_cast<size_t>(sample.document_lengths[i]), i);
  }
  return documents;
}

/// Whether some of the layers have a window and others have none.
bool has_both(const ModelConfig& config) {
  for (int64_t layer = 1; layer < config.num_layers; ++layer) {
    if (config.is_local(layer) != config.is_local(0)) return true;
  }
  return false;
}

/// The cells hidden by the model's mask: the future if it is causal, keys beyond its window in
/// layers that have it, and other documents.
std::vector<uint8_t> hidden_in(const ModelTraits& traits, bool is_local, const Sample& sample) {
  const auto documents = documents_of(sample);
  const auto count = static_cast<int64_t>(sample.tokens.size());
  std::vector<uint8_t> hidden;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t s = 0; s < count; ++s) {
      const bool apart = documents[static_cast<size_t>(t)] != documents[static_cast<size_t>(s)];
      hidden.push_back(traits.hides(t, s, is_local) || apart ? 1 : 0);
    }
  }
  return hidden;
}

std::string mask_in_words(const ModelConfig& config, const std::vector<Sample>& samples) {
  const ModelTraits traits = traits_of(config);
  std::string words = traits.causal ? "causal: each token sees itself and those before it"
                                    : "each token sees all of its text";
  if (traits.attention_window > 0) {
    words += fmt::format("; window{}: none that is {} or more away",
                         has_both(config) ? " of local layers" : "", traits.attention_window);
  }
  for (const Sample& sample : samples) {
    if (sample.document_lengths.size() < 2) continue;
    words += fmt::format("; the texts of the row, of {} tokens, do not see each other",
                         fmt::join(sample.document_lengths, " and "));
  }
  return words;
}

SequenceAttention sequence_of(TextModel& model, const Tokenizer& tokenizer, const Sample& sample,
                              const AttentionChoice& choice) {
  SequenceAttention sequence;
  sequence.ids = sample.tokens;
  for (const int32_t token : sample.tokens) sequence.tokens.push_back(tokenizer.token_text(token));
  const ModelConfig& config = model.config();
  const ModelTraits traits = traits_of(config);
  const bool both = has_both(config);
  sequence.hidden = hidden_in(traits, !both && config.is_local(0), sample);
  if (both) sequence.local_hidden = hidden_in(traits, true, sample);
  const auto square = std::ssize(sample.tokens) * std::ssize(sample.tokens);
  const auto weights = attention_weights_of(model, sample, choice.layers);  // (H, N, N) each
  for (size_t i = 0; i < weights.size(); ++i) {
    for (const int64_t head : choice.heads) {
      const auto begin = weights[i].begin() + head * square;
      sequence.heads.push_back({choice.layers[i],
                                head,
                                {begin, begin + square},
                                both && config.is_local(choice.layers[i])});
    }
  }
  return sequence;
}

}  // namespace

AttentionReport record_attention(TextModel& model, const Tokenizer& tokenizer,
                                 const std::vector<Sample>& samples,
                                 const AttentionChoice& choice) {
  const ModelConfig& config = model.config();
  const ModelTraits traits = traits_of(config);
  const AttentionChoice found = {chosen(choice.layers, config.num_layers, "layer"),
                                 chosen(choice.heads, config.num_heads, "head")};
  AttentionReport report;
  report.model = fmt::format("{} of {} layers with {} heads, {} wide", traits.name,
                             config.num_layers, config.num_heads, config.hidden_size);
  report.mask = mask_in_words(config, samples);
  for (const Sample& sample : samples) {
    report.sequences.push_back(sequence_of(model, tokenizer, sample, found));
  }
  return report;
}

}  // namespace tessera
