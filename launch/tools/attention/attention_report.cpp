#include "launch/tools/attention/attention_report.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

/// Names the place of maps in messages: "sequence 0" or "attention cross of sequence 0".
std::string place_of(const AttentionMaps& maps, size_t sequence) {
  if (maps.name.empty()) return fmt::format("sequence {}", sequence);
  return fmt::format("attention {} of sequence {}", maps.name, sequence);
}

void check_head(const HeadAttention& head, const std::vector<uint8_t>& hidden, size_t queries,
                size_t keys, const std::string& place) {
  require(head.weights.size() == queries * keys,
          "attention report: layer {}, head {} of {} has {} weights, but {} × {} tokens",
          head.layer, head.head, place, head.weights.size(), queries, keys);
  for (size_t i = 0; i < head.weights.size(); ++i) {
    require(head.weights[i] >= 0.0f && head.weights[i] <= 1.0f + 1e-3f,
            "attention report: layer {}, head {} of {}: the weight of key {} for query {} "
            "is {}, but must be from 0 to 1",
            head.layer, head.head, place, i % keys, i / keys, head.weights[i]);
    // A cell drawn as hidden must have been hidden from attention.
    require(hidden[i] == 0 || head.weights[i] == 0.0f,
            "attention report: layer {}, head {} of {}: key {} is hidden from query {}, but "
            "has a weight of {}",
            head.layer, head.head, place, i % keys, i / keys, head.weights[i]);
  }
}

void check_maps(const AttentionMaps& maps, const SequenceAttention& of, size_t sequence) {
  const std::string place = place_of(maps, sequence);
  const size_t texts = of.texts.size();
  require(maps.queries < texts && maps.keys < texts,
          "attention report: {} is of the texts {} and {}, but there are {}", place, maps.queries,
          maps.keys, texts);
  const size_t queries = of.queries_of(maps).tokens.size(), keys = of.keys_of(maps).tokens.size();
  require(maps.hidden.size() == queries * keys,
          "attention report: {} has {} × {} tokens and a mask of {} elements", place, queries, keys,
          maps.hidden.size());
  require(maps.local_hidden.empty() || maps.local_hidden.size() == queries * keys,
          "attention report: {} has {} × {} tokens and a local mask of {} elements", place, queries,
          keys, maps.local_hidden.size());
  for (size_t h = 0; h < maps.heads.size(); ++h) {
    const HeadAttention& head = maps.heads[h];
    require(!head.is_local || !maps.local_hidden.empty(),
            "attention report: layer {} of {} is local, but there is no local mask", head.layer,
            place);
    check_head(head, maps.hidden_of(head), queries, keys, place);
    if (h == 0) continue;
    const HeadAttention& before = maps.heads[h - 1];
    require(std::pair(before.layer, before.head) < std::pair(head.layer, head.head),
            "attention report: layer {}, head {} of {} comes after layer {}, head {}", head.layer,
            head.head, place, before.layer, before.head);
  }
}

/// `values` (T, S) as a list of rows.
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

Json to_json(const AttentionText& text) {
  Json tokens = Json::array();
  for (const std::string& token : text.tokens) tokens.push_back(valid_utf8(token));
  return {{"ids", text.ids}, {"tokens", std::move(tokens)}};
}

/// `columns` is the number of keys.
Json to_json(const AttentionMaps& maps, size_t columns) {
  Json heads = Json::array();
  for (const HeadAttention& head : maps.heads) {
    Json& item = heads.emplace_back(Json{{"layer", head.layer},
                                         {"head", head.head},
                                         {"weights", rows(head.weights, columns, shortened)}});
    if (!maps.local_hidden.empty()) item["local"] = head.is_local;
  }
  const auto mask = [&](const std::vector<uint8_t>& hidden) {
    return rows(hidden, columns, [](uint8_t h) { return h != 0 ? 1 : 0; });
  };
  Json json = {{"hidden", mask(maps.hidden)}, {"heads", std::move(heads)}};
  if (!maps.local_hidden.empty()) json["local_hidden"] = mask(maps.local_hidden);
  return json;
}

/// A text or attention without a name is the only one: the sequence itself has its members.
Json to_json(const SequenceAttention& sequence) {
  Json json = Json::object();
  for (const AttentionText& text : sequence.texts) {
    if (text.name.empty()) {
      json.update(to_json(text));
    } else {
      json[text.name] = to_json(text);
    }
  }
  for (const AttentionMaps& maps : sequence.attentions) {
    Json of_maps = to_json(maps, sequence.keys_of(maps).tokens.size());
    if (maps.name.empty()) {
      json.update(of_maps);
      continue;
    }
    of_maps["attention"] = maps.name;
    of_maps["queries"] = sequence.queries_of(maps).name;
    of_maps["keys"] = sequence.keys_of(maps).name;
    json["attentions"].push_back(std::move(of_maps));
  }
  return json;
}

void check_image(const SequenceAttention& sequence, size_t index) {
  const AttendedImage& image = sequence.image;
  if (image.size == 0) return;
  const int64_t tokens = image.patches * image.patches + (image.has_class_token ? 1 : 0);
  require(sequence.texts.size() == 1 && sequence.texts[0].num_tokens() == tokens &&
              std::ssize(image.colors) == 3 * image.size * image.size,
          "attention report: sequence {} has an image of {} pixels and {} patches a side, but its "
          "colors or tokens are of another number",
          index, image.size, image.patches);
}

}  // namespace

std::vector<float> patch_weights(const AttendedImage& image, const HeadAttention& head) {
  const auto patches = static_cast<size_t>(image.patches * image.patches);
  const size_t first = image.has_class_token ? 1 : 0, tokens = patches + first;
  const size_t queries = image.has_class_token ? 1 : patches;
  std::vector<float> sums(patches, 0.0f);
  for (size_t query = 0; query < queries; ++query) {
    for (size_t patch = 0; patch < patches; ++patch) {
      sums[patch] += head.weights[query * tokens + first + patch] / static_cast<float>(queries);
    }
  }
  return sums;
}

void check(const AttentionReport& report) {
  for (size_t i = 0; i < report.sequences.size(); ++i) {
    const SequenceAttention& sequence = report.sequences[i];
    for (const AttentionText& text : sequence.texts) {
      require(text.ids.size() == text.tokens.size(),
              "attention report: {}{}sequence {} has {} tokens and {} ids", text.name,
              text.name.empty() ? "" : " of ", i, text.tokens.size(), text.ids.size());
    }
    check_image(sequence, i);
    for (const AttentionMaps& maps : sequence.attentions) check_maps(maps, sequence, i);
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
