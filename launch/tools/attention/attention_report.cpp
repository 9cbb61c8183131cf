#include "launch/tools/attention/attention_report.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "launch/tools/attention/token_label.h"

namespace tessera {
namespace {

void check_head(const HeadAttention& head, const std::vector<uint8_t>& hidden, size_t num_tokens,
                size_t sequence) {
  require(head.weights.size() == num_tokens * num_tokens,
          "attention report: layer {}, head {} of sequence {} has {} weights, but {} × {} tokens",
          head.layer, head.head, sequence, head.weights.size(), num_tokens, num_tokens);
  for (size_t i = 0; i < head.weights.size(); ++i) {
    require(head.weights[i] >= 0.0f && head.weights[i] <= 1.0f + 1e-3f,
            "attention report: layer {}, head {} of sequence {}: the weight of key {} for query {} "
            "is {}, but must be from 0 to 1",
            head.layer, head.head, sequence, i % num_tokens, i / num_tokens, head.weights[i]);
    // A cell drawn as hidden must have been hidden from attention.
    require(
        hidden[i] == 0 || head.weights[i] == 0.0f,
        "attention report: layer {}, head {} of sequence {}: key {} is hidden from query {}, but "
        "has a weight of {}",
        head.layer, head.head, sequence, i % num_tokens, i / num_tokens, head.weights[i]);
  }
}

/// `values` (T, T) as a list of rows.
template <typename T, typename ToJson>
Json rows(const std::vector<T>& values, size_t columns, ToJson to_json) {
  Json list = Json::array();
  for (size_t begin = 0; begin < values.size(); begin += columns) {
    Json row = Json::array();
    for (size_t i = begin; i < begin + columns; ++i) row.push_back(to_json(values[i]));
    list.push_back(std::move(row));
  }
  return list;
}

/// Rounds to six significant digits; further digits are fp32 noise.
double shortened(float weight) { return std::stod(fmt::format("{:.6g}", weight)); }

Json to_json(const SequenceAttention& sequence) {
  const size_t num_tokens = sequence.tokens.size();
  Json tokens = Json::array();
  for (const std::string& token : sequence.tokens) tokens.push_back(valid_utf8(token));
  Json heads = Json::array();
  for (const HeadAttention& head : sequence.heads) {
    Json& item = heads.emplace_back(Json{{"layer", head.layer},
                                         {"head", head.head},
                                         {"weights", rows(head.weights, num_tokens, shortened)}});
    if (!sequence.local_hidden.empty()) item["local"] = head.is_local;
  }
  const auto mask = [&](const std::vector<uint8_t>& hidden) {
    return rows(hidden, num_tokens, [](uint8_t h) { return h != 0 ? 1 : 0; });
  };
  Json json = {{"ids", sequence.ids},
               {"tokens", std::move(tokens)},
               {"hidden", mask(sequence.hidden)},
               {"heads", std::move(heads)}};
  if (!sequence.local_hidden.empty()) json["local_hidden"] = mask(sequence.local_hidden);
  return json;
}

}  // namespace

void check(const AttentionReport& report) {
  for (size_t i = 0; i < report.sequences.size(); ++i) {
    const SequenceAttention& sequence = report.sequences[i];
    const size_t num_tokens = sequence.tokens.size();
    require(sequence.ids.size() == num_tokens && sequence.hidden.size() == num_tokens * num_tokens,
            "attention report: sequence {} has {} tokens, {} ids and a mask of {} elements", i,
            num_tokens, sequence.ids.size(), sequence.hidden.size());
    require(
        sequence.local_hidden.empty() || sequence.local_hidden.size() == num_tokens * num_tokens,
        "attention report: sequence {} has {} tokens and a local mask of {} elements", i,
        num_tokens, sequence.local_hidden.size());
    for (size_t h = 0; h < sequence.heads.size(); ++h) {
      const HeadAttention& head = sequence.heads[h];
      require(!head.is_local || !sequence.local_hidden.empty(),
              "attention report: layer {} of sequence {} is local, but there is no local mask",
              head.layer, i);
      check_head(head, sequence.hidden_of(head), num_tokens, i);
      if (h == 0) continue;
      const HeadAttention& before = sequence.heads[h - 1];
      require(std::pair(before.layer, before.head) < std::pair(head.layer, head.head),
              "attention report: layer {}, head {} of sequence {} comes after layer {}, head {}",
              head.layer, head.head, i, before.layer, before.head);
    }
  }
}

Json to_json(const AttentionReport& report) {
  check(report);
  Json sequences = Json::array();
  for (const SequenceAttention& sequence : report.sequences) sequences.push_back(to_json(sequence));
  return {{"checkpoint", valid_utf8(report.checkpoint)},
          {"model", valid_utf8(report.model)},
          {"mask", valid_utf8(report.mask)},
          {"sequences", std::move(sequences)}};
}

}  // namespace tessera
