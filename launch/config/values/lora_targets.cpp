#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "launch/config/values/value_rule.h"

namespace tessera {
namespace {

/// Layers that have names of their own in Hugging Face transformers and are one layer here.
struct ForeignTargets {
  std::vector<std::string_view> words;  ///< PEFT's target_modules; all of them are one layer here
  std::vector<std::string_view> patterns;
  std::string_view what = {};
};

const ForeignTargets kForeignTargets[] = {
    {{"all-linear"}, {"*"}},
    {{"q_proj", "k_proj", "v_proj"}, {"*.attention.qkv"}, "queries, keys and values are"},
    {{"query", "key", "value"}, {"*.attention.qkv"}, "queries, keys and values are"},
    {{"q", "k", "v"},
     {"*.attention.qkv", "*.cross_attention.query", "*.cross_attention.key_value"},
     "queries, keys and values are"},
    {{"gate_proj", "up_proj"}, {"*.mlp.gate_up"}, "the gate and what it multiplies are"},
    {{"wi_0", "wi_1"}, {"*.mlp.gate_up"}, "the gate and what it multiplies are"},
    {{"c_attn"}, {"*.attention.qkv"}},
    {{"Wqkv"}, {"*.attention.qkv"}},
    {{"Wi"}, {"*.mlp.gate_up"}},
    {{"Wo"}, {"*.attention.output", "*.mlp.down"}},
    {{"o_proj"}, {"*.attention.output"}},
    {{"o"}, {"*attention.output"}},
    {{"c_proj"}, {"*.attention.output", "*.mlp.down"}},
    {{"dense"}, {"*.attention.output", "*.mlp.up", "*.mlp.down"}},
    {{"c_fc"}, {"*.mlp.up"}},
    {{"wi"}, {"*.mlp.up"}},
    {{"down_proj"}, {"*.mlp.down"}},
    {{"wo"}, {"*.mlp.down"}},
};

}  // namespace

LoraTargets::Value LoraTargets::read(const ConfigValue& node) const {
  Value left = ListOf<Text>::read(node), found;
  for (const ForeignTargets& foreign : kForeignTargets) {
    std::vector<std::string_view> given, missing;
    for (const std::string_view word : foreign.words) {
      (std::ranges::count(left, word) > 0 ? given : missing).push_back(word);
    }
    if (given.empty()) continue;
    if (!missing.empty()) {
      throw Error(fmt::format(
          "has {} without {}: {} one layer here, so write \"{}\", which adapts all of it",
          fmt::join(given, " and "), fmt::join(missing, " and "), foreign.what,
          fmt::join(foreign.patterns, "\", \"")));
    }
    std::erase_if(left, [&](const std::string& word) {
      return std::ranges::count(foreign.words, std::string_view(word)) > 0;
    });
    found.insert(found.end(), foreign.patterns.begin(), foreign.patterns.end());
  }
  found.insert(found.end(), left.begin(), left.end());
  Value targets;
  for (std::string& pattern : found) {
    if (std::ranges::count(targets, pattern) == 0) targets.push_back(std::move(pattern));
  }
  return targets;
}

}  // namespace tessera
