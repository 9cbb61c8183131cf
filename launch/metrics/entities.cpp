#include "launch/metrics/entities.h"

#include <algorithm>
#include <string_view>

namespace tessera {
namespace {

bool is_entity(std::string_view name) {
  return name.size() > 2 && name[1] == '-' && std::string_view("BISE").find(name[0]) != name.npos;
}

}  // namespace

bool EntityLabels::are_entities(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, is_entity) &&
         std::ranges::all_of(names,
                             [](std::string_view name) { return name == "O" || is_entity(name); });
}

EntityLabels::EntityLabels(const std::vector<std::string>& names) {
  std::vector<std::string> types;
  for (const std::string& name : names) {
    if (name == "O") {
      tags_.push_back({});
      continue;
    }
    const std::string type = name.substr(2);
    const auto known = std::ranges::find(types, type);
    tags_.push_back({name[0], static_cast<int32_t>(known - types.begin())});
    if (known == types.end()) types.push_back(type);
  }
}

bool EntityLabels::ends(Tag before, Tag tag) {
  if (before.prefix == 'O') return false;
  if (before.prefix == 'E' || before.prefix == 'S' || before.type != tag.type) return true;
  return tag.prefix == 'B' || tag.prefix == 'S';
}

bool EntityLabels::begins(Tag before, Tag tag) {
  if (tag.prefix == 'O') return false;
  if (tag.prefix == 'B' || tag.prefix == 'S' || before.type != tag.type) return true;
  return before.prefix == 'E' || before.prefix == 'S';
}

std::vector<Entity> EntityLabels::find(std::span<const int32_t> labels) const {
  std::vector<Entity> entities;
  Tag before;
  int64_t begin = 0;
  for (int64_t i = 0; i <= std::ssize(labels); ++i) {
    const bool after_last = i == std::ssize(labels);
    const Tag tag = after_last ? Tag{} : tags_[static_cast<size_t>(labels[static_cast<size_t>(i)])];
    if (ends(before, tag)) entities.push_back({before.type, begin, i});
    if (begins(before, tag)) begin = i;
    before = tag;
  }
  return entities;
}

}  // namespace tessera
