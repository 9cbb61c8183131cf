#include "launch/tools/plan/parameter_groups.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace tessera {
namespace {

enum GroupIndex : size_t { kEmbeddings, kAttention, kMlp, kNorms, kHeads };

/// Part `index` of a dotted name: part 3 of "blocks.3.attention.qkv.weight" is "qkv"; "" if there
/// are fewer.
std::string_view part(std::string_view name, int index) {
  for (; index > 0; --index) {
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return "";
    name.remove_prefix(dot + 1);
  }
  return name.substr(0, name.find('.'));
}

/// `name` is without that of its stack: "decoder.".
GroupIndex group_of_part(std::string_view name) {
  for (int i = 0; !part(name, i).empty(); ++i) {
    if (part(name, i).ends_with("norm")) return kNorms;
  }
  const std::string_view first = part(name, 0);
  if (first == "embedding") return kEmbeddings;
  if (first == "blocks" && part(name, 2).ends_with("attention")) return kAttention;
  if (first == "position_bias") return kAttention;  // of all layers
  if (first == "blocks" && part(name, 2) == "mlp") return kMlp;
  const bool head =
      first == "head" || first == "pooler" || first == "next_sentence" || first == "classifier";
  require(head, "the parameter {} belongs to no known part of a model", name);
  return kHeads;
}

GroupIndex group_of(std::string_view name) {
  const std::string_view stack = part(name, 0);
  if (stack == "encoder" || stack == "decoder") name.remove_prefix(stack.size() + 1);
  return group_of_part(name);
}

}  // namespace

std::vector<ParameterGroup> count_by_group(const ParameterStore& store) {
  std::vector<ParameterGroup> groups = {
      {"embeddings"}, {"attention"}, {"MLP"}, {"norms"}, {"heads"}};
  for (const Parameter& parameter : store.parameters()) {
    ParameterGroup& group = groups[group_of(parameter.name)];
    group.global += parameter.global_shape.numel();
    group.local += parameter.real_shape().numel();
  }
  return groups;
}

}  // namespace tessera
