#include "launch/tools/attention/run_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/tools/attention/heat_png.h"
#include "launch/tools/attention/record_attention.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The start of a sample's first document.
Sample start_of(const Sample& sample) {
  const auto length = [](const std::vector<int32_t>& lengths) {
    return lengths.empty() ? 0 : std::min(static_cast<size_t>(lengths[0]), kTokensOfRun);
  };
  const auto first = [](const auto& values, size_t count) {
    return std::vector(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(
                                                            std::min(values.size(), count)));
  };
  const size_t tokens = length(sample.document_lengths), sources = length(sample.source_lengths);
  Sample start;
  start.tokens = first(sample.tokens, tokens);
  start.token_types = first(sample.token_types, tokens);
  start.targets = first(sample.targets, tokens);
  start.document_lengths = {static_cast<int32_t>(tokens)};
  start.labels = first(sample.labels, 1);
  start.label_values = sample.label_values;
  if (sample.source_lengths.empty()) return start;
  start.source_tokens = first(sample.source_tokens, sources);
  start.source_lengths = {static_cast<int32_t>(sources)};
  return start;
}

/// 0, 1, ... up to `most` of `count`.
std::vector<int64_t> first_of(int64_t count, int64_t most) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < std::min(count, most); ++i) numbers.push_back(i);
  return numbers;
}

std::vector<Picture> pictures_of(const SequenceAttention& sequence) {
  constexpr int64_t kCell = 8;
  std::vector<Picture> pictures;
  for (const AttentionMaps& maps : sequence.attentions) {
    const std::string name = maps.name.empty() ? "" : maps.name + "/";
    for (const HeadAttention& head : maps.heads) {
      pictures.push_back(
          heat_picture(fmt::format("attention/{}layer_{}/head_{}", name, head.layer, head.head),
                       head.weights, maps.hidden_of(head), sequence.queries_of(maps).num_tokens(),
                       sequence.keys_of(maps).num_tokens(), kCell));
    }
  }
  return pictures;
}

}  // namespace

AttentionOfRun attention_of_run(QueriedModel& model, const Tokenizer& tokenizer,
                                const Sample& sample) {
  const ModelConfig& config = model.config();
  const AttentionChoice choice = {first_of(config.num_layers, kLayersOfRun),
                                  first_of(config.num_heads, kHeadsOfRun)};
  const AttentionReport report = record_attention(model, tokenizer, {start_of(sample)}, choice);
  return {to_json(report), pictures_of(report.sequences.at(0))};
}

}  // namespace tessera
