#include <nlohmann/json.hpp>

#include "core/error.h"
#include "launch/tools/attention/attention_report.h"

namespace tessera {
namespace {

// These throw what the JSON library throws for a value that is missing or of another kind.

template <typename T>
std::vector<T> cells_of(const Json& rows) {
  std::vector<T> cells;
  for (const Json& row : rows) {
    for (const Json& cell : row) cells.push_back(cell.get<T>());
  }
  return cells;
}

AttentionText text_of(const Json& json, std::string name) {
  return {std::move(name), json.at("ids").get<std::vector<int32_t>>(),
          json.at("tokens").get<std::vector<std::string>>()};
}

AttentionMaps maps_of(const Json& json) {
  AttentionMaps maps;
  maps.hidden = cells_of<uint8_t>(json.at("hidden"));
  if (json.contains("local_hidden")) maps.local_hidden = cells_of<uint8_t>(json["local_hidden"]);
  for (const Json& head : json.at("heads")) {
    maps.heads.push_back({head.at("layer").get<int64_t>(), head.at("head").get<int64_t>(),
                          cells_of<float>(head.at("weights")), head.value("local", false)});
  }
  return maps;
}

SequenceAttention sequence_of(const Json& json) {
  if (json.contains("ids")) return {{text_of(json, "")}, {maps_of(json)}};
  SequenceAttention sequence;
  for (const char* name : {"source", "target"}) {
    sequence.texts.push_back(text_of(json.at(name), name));
  }
  const auto place_of = [&](const Json& name) { return name == "source" ? size_t{0} : size_t{1}; };
  for (const Json& each : json.at("attentions")) {
    AttentionMaps& maps = sequence.attentions.emplace_back(maps_of(each));
    maps.name = each.at("attention").get<std::string>();
    maps.queries = place_of(each.at("queries"));
    maps.keys = place_of(each.at("keys"));
  }
  return sequence;
}

}  // namespace

AttentionReport attention_report_of(const Json& json, const std::string& source) {
  AttentionReport report;
  try {
    report.checkpoint = json.at("checkpoint").get<std::string>();
    report.model = json.at("model").get<std::string>();
    report.mask = json.at("mask").get<std::string>();
    for (const Json& sequence : json.at("sequences")) {
      report.sequences.push_back(sequence_of(sequence));
    }
  } catch (const Json::exception& error) {
    fail("{} is no report about attention: {}", source, error.what());
  }
  check(report);
  return report;
}

}  // namespace tessera
