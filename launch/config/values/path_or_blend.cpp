#include <algorithm>
#include <set>
#include <string_view>

#include "launch/config/values/value_rule.h"
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

/// Weights outside this range are mistakes; within it, no sum overflows.
constexpr NumberIn kWeight{1e-9, 1e9};

/// yaml-cpp supports no longer key.
constexpr size_t kMaxPathBytes = 1000;

bool fits_a_key(const std::string& path) { return Text{}.write(path).size() <= kMaxPathBytes; }

std::string read_path(const ConfigValue& key) {
  const bool fits = Text{}.accepts(key.text) && fits_a_key(key.text);
  if (!fits) {
    throw ErrorInside(key.position,
                      fmt::format("has the path '{}', but a path must be text of 1 to {} bytes, "
                                  "without control characters",
                                  excerpt(key.text), kMaxPathBytes));
  }
  return key.text;
}

double read_weight(const ConfigValue& key, const ConfigValue& value) {
  try {
    return kWeight.read(value);
  } catch (const Error& error) {
    throw ErrorInside(key.position,
                      fmt::format("has '{}', whose weight {}", excerpt(key.text), error.what()));
  }
}

[[noreturn]] void refuse_twice(const ConfigValue& key) {
  throw ErrorInside(
      key.position,
      fmt::format("has '{}' twice: give it once, with the sum of both weights", excerpt(key.text)));
}

bool is_plain_path(const DataBlend& value) {
  return value.parts.size() == 1 && value.parts[0].weight == 1.0;
}

}  // namespace

std::string PathOrBlend::allowed() const {
  return fmt::format("text, or a map of text to weights, each {}", kWeight.allowed());
}

bool PathOrBlend::accepts(const DataBlend& value) const {
  std::set<std::string_view> paths;
  const bool valid = std::ranges::all_of(value.parts, [&](const DataBlend::Part& part) {
    return Text{}.accepts(part.path) && kWeight.accepts(part.weight) &&
           paths.insert(part.path).second && (is_plain_path(value) || fits_a_key(part.path));
  });
  return valid && !value.parts.empty();
}

DataBlend PathOrBlend::read(const ConfigValue& node) const {
  if (node.kind == ConfigValue::Kind::scalar) return Text{}.read(node);
  if (node.kind != ConfigValue::Kind::map || node.keys.empty()) refuse(node, allowed());
  DataBlend blend;
  std::set<std::string_view> paths;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const ConfigValue& key = node.keys[i];
    if (!paths.insert(key.text).second) refuse_twice(key);
    blend.parts.push_back({read_path(key), read_weight(key, node.items[i])});
  }
  return blend;
}

std::string PathOrBlend::write(const DataBlend& value) const {
  if (is_plain_path(value)) return Text{}.write(value.parts[0].path);
  std::string text = "{";
  for (const DataBlend::Part& part : value.parts) {
    text += fmt::format("{}{}: {}", text.size() == 1 ? "" : ", ", Text{}.write(part.path),
                        number_text(part.weight));
  }
  return text + "}";
}

}  // namespace tessera
