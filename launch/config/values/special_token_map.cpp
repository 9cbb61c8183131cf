#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "launch/config/values/value_rule.h"

namespace tessera {
namespace {

constexpr IntegerIn kId{0, std::numeric_limits<int32_t>::max()};

bool is_name(std::string_view name) {
  return std::ranges::find(kSpecialTokenNames, name) != kSpecialTokenNames.end();
}

}  // namespace

std::string SpecialTokenMap::allowed() const {
  return fmt::format("a map of {} to ids, each {}", fmt::join(kSpecialTokenNames, ", "),
                     kId.allowed());
}

bool SpecialTokenMap::accepts(const SpecialTokenIds& value) const {
  return std::ranges::all_of(
      value, [](const auto& item) { return is_name(item.first) && kId.accepts(item.second); });
}

SpecialTokenIds SpecialTokenMap::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::map) refuse(node, allowed());
  SpecialTokenIds ids;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const ConfigValue& key = node.keys[i];
    const std::string shown = excerpt(key.text);
    if (!is_name(key.text)) {
      throw ErrorInside(key.position, fmt::format("has '{}', but the special tokens are {}", shown,
                                                  fmt::join(kSpecialTokenNames, ", ")));
    }
    try {
      const auto id = static_cast<int32_t>(kId.read(node.items[i]));
      if (!ids.emplace(key.text, id).second) fail("is given twice: give it once");
    } catch (const Error& error) {
      throw ErrorInside(key.position, fmt::format("has '{}', which {}", shown, error.what()));
    }
  }
  return ids;
}

std::string SpecialTokenMap::write(const SpecialTokenIds& value) const {
  std::string text;
  for (const auto& [name, id] : value) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, id);
  }
  return "{" + text + "}";
}

}  // namespace tessera
