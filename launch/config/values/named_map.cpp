#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "launch/config/values/value_rule.h"

namespace tessera {
namespace {

constexpr IntegerIn kId{0, std::numeric_limits<int32_t>::max()};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Reads a map from some of `names`, which are `what`, with a rule for its values.
template <typename T, typename Rule>
std::map<std::string, T, std::less<>> read_map(const ConfigValue& node, std::string_view what,
                                               std::span<const std::string_view> names,
                                               const Rule& rule) {
  std::map<std::string, T, std::less<>> values;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const ConfigValue& key = node.keys[i];
    const std::string shown = excerpt(key.text);
    if (!is_among(names, key.text)) {
      throw ErrorInside(key.position, fmt::format("has '{}', but the {} are {}", shown, what,
                                                  fmt::join(names, ", ")));
    }
    try {
      auto value = static_cast<T>(rule.read(node.items[i]));
      if (!values.emplace(key.text, std::move(value)).second) fail("is given twice: give it once");
    } catch (const Error& error) {
      throw ErrorInside(key.position, fmt::format("has '{}', which {}", shown, error.what()));
    }
  }
  return values;
}

template <typename Rule>
std::string write_map(const auto& values, const Rule& rule) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, rule.write(value));
  }
  return "{" + text + "}";
}

bool accepts_map(const auto& values, std::span<const std::string_view> names, const auto& rule) {
  return std::ranges::all_of(values, [&](const auto& item) {
    return is_among(names, item.first) && rule.accepts(item.second);
  });
}

}  // namespace

std::string SpecialTokenMap::allowed() const {
  return fmt::format("a map of {} to ids, each {}", fmt::join(kSpecialTokenNames, ", "),
                     kId.allowed());
}

bool SpecialTokenMap::accepts(const SpecialTokenIds& value) const {
  return accepts_map(value, kSpecialTokenNames, kId);
}

SpecialTokenIds SpecialTokenMap::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::map) refuse(node, allowed());
  return read_map<int32_t>(node, "special tokens", kSpecialTokenNames, kId);
}

std::string SpecialTokenMap::write(const SpecialTokenIds& value) const {
  return write_map(value, kId);
}

std::string ColumnMap::allowed() const {
  return fmt::format("a map of {} to names of columns", fmt::join(kColumnNames, ", "));
}

bool ColumnMap::accepts(const ColumnNames& value) const {
  return accepts_map(value, kColumnNames, Text{});
}

ColumnNames ColumnMap::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::map) refuse(node, allowed());
  return read_map<std::string>(node, "columns", kColumnNames, Text{});
}

std::string ColumnMap::write(const ColumnNames& value) const { return write_map(value, Text{}); }

}  // namespace tessera
