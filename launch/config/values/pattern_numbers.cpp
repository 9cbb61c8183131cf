#include <algorithm>
#include <set>
#include <string_view>

#include "launch/config/values/value_rule.h"

namespace tessera {
namespace {

/// yaml-cpp supports no longer key.
constexpr size_t kMaxPatternBytes = 1000;

bool is_pattern(const std::string& text) {
  return Text{}.accepts(text) && Text{}.write(text).size() <= kMaxPatternBytes;
}

}  // namespace

std::string PatternNumbers::allowed() const {
  return fmt::format("a map of patterns of names to numbers, each {}", number.allowed());
}

bool PatternNumbers::accepts(const Value& value) const {
  std::set<std::string_view> patterns;
  return std::ranges::all_of(value, [&](const auto& item) {
    return is_pattern(item.first) && number.accepts(item.second) &&
           patterns.insert(item.first).second;
  });
}

PatternNumbers::Value PatternNumbers::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::map) refuse(node, allowed());
  Value value;
  std::set<std::string_view> patterns;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const ConfigValue& key = node.keys[i];
    try {
      require(is_pattern(key.text), "must be text of 1 to {} bytes, without control characters",
              kMaxPatternBytes);
      require(patterns.insert(key.text).second, "is given twice: give it once");
      value.emplace_back(key.text, number.read(node.items[i]));
    } catch (const Error& error) {
      throw ErrorInside(key.position,
                        fmt::format("has '{}', which {}", excerpt(key.text), error.what()));
    }
  }
  return value;
}

std::string PatternNumbers::write(const Value& value) const {
  std::string text;
  for (const auto& [pattern, factor] : value) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", Text{}.write(pattern),
                        number.write(factor));
  }
  return "{" + text + "}";
}

}  // namespace tessera
