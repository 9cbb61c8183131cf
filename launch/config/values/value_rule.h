#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/config/column_names.h"
#include "launch/config/data_blend.h"
#include "launch/config/values/config_value.h"
#include "launch/tokenizers/special_tokens.h"

namespace tessera {

// A rule defines a key's values. Each has
//   Value                       the C++ type;
//   std::string allowed()       in words, for messages ("must be ...") and for the documentation;
//   bool accepts(Value)         whether a value is in range;
//   Value read(const ConfigValue&)
//                               throws "is ..., but must be ..." for an invalid value, or
//                               ErrorInside if a part of the value is invalid;
//   std::string write(Value)    YAML that read() converts back to an equal value.

/// Throws Error with "is <what was found>, but must be <allowed>".
[[noreturn]] void refuse(const ConfigValue& node, const std::string& allowed);

/// An error in a part of a value, and the position of that part.
class ErrorInside : public Error {
 public:
  ErrorInside(TextPosition where, const std::string& message) : Error(message), position(where) {}

  TextPosition position;
};

struct IntegerIn {
  using Value = int64_t;
  int64_t min;
  int64_t max;  ///< included

  std::string allowed() const;
  bool accepts(int64_t value) const { return min <= value && value <= max; }
  int64_t read(const ConfigValue& node) const;
  std::string write(int64_t value) const;
};

/// A time in whole seconds, written as seconds or as h:mm:ss: `5400`, `1:30:00`. 0 is none.
struct Duration {
  using Value = int64_t;
  static constexpr int64_t kMax = 1'000'000'000;

  std::string allowed() const;
  bool accepts(int64_t value) const { return 0 <= value && value <= kMax; }
  int64_t read(const ConfigValue& node) const;
  std::string write(int64_t value) const;
};

/// Finite numbers from min to max, both included, or without max: [min, max).
struct NumberIn {
  using Value = double;
  double min;
  double max;
  bool max_excluded = false;

  std::string allowed() const;
  bool accepts(double value) const {
    return min <= value && (max_excluded ? value < max : value <= max);
  }
  double read(const ConfigValue& node) const;
  std::string write(double value) const;
};

struct TrueOrFalse {
  using Value = bool;

  std::string allowed() const { return "true or false"; }
  bool accepts(bool) const { return true; }
  bool read(const ConfigValue& node) const;
  std::string write(bool value) const { return value ? "true" : "false"; }
};

/// Non-empty text without control characters, quoted or not.
struct Text {
  using Value = std::string;

  std::string allowed() const { return "text"; }
  bool accepts(const std::string& value) const;
  std::string read(const ConfigValue& node) const;
  std::string write(const std::string& value) const;
};

/// Text, also empty, that may have line ends and tabs (\n and \t in double quotes), but no other
/// control characters.
struct Passage {
  using Value = std::string;

  std::string allowed() const { return "text"; }
  bool accepts(const std::string& value) const;
  std::string read(const ConfigValue& node) const;
  std::string write(const std::string& value) const;
};

/// Some of the given letters, at least one, in any order.
struct Letters {
  using Value = std::string;
  std::string_view letters;

  std::string allowed() const;
  bool accepts(const std::string& value) const;
  std::string read(const ConfigValue& node) const;
  std::string write(const std::string& value) const { return value; }
};

/// A path, or a map from paths to weights: positive numbers, of which only the ratio matters. A
/// single path is written without a map.
struct PathOrBlend {
  using Value = DataBlend;

  std::string allowed() const;
  bool accepts(const DataBlend& value) const;
  DataBlend read(const ConfigValue& node) const;
  std::string write(const DataBlend& value) const;
};

/// A tokenizer specification (launch/tokenizers/tokenizer_spec.h). Does not open a vocabulary file.
struct TokenizerName {
  using Value = std::string;

  std::string allowed() const;
  bool accepts(const std::string& value) const;
  std::string read(const ConfigValue& node) const;
  std::string write(const std::string& value) const;
};

/// A map from names of special tokens to ids, in braces. May be empty.
struct SpecialTokenMap {
  using Value = SpecialTokenIds;

  std::string allowed() const;
  bool accepts(const SpecialTokenIds& value) const;
  SpecialTokenIds read(const ConfigValue& node) const;
  std::string write(const SpecialTokenIds& value) const;
};

/// A map from names of columns to those that files have, in braces. May be empty.
struct ColumnMap {
  using Value = ColumnNames;

  std::string allowed() const;
  bool accepts(const ColumnNames& value) const;
  ColumnNames read(const ConfigValue& node) const;
  std::string write(const ColumnNames& value) const;
};

/// A map from patterns of names (core/name_pattern.h) to numbers. May be empty. Keeps its order.
struct PatternNumbers {
  using Value = std::vector<std::pair<std::string, double>>;
  NumberIn number;

  std::string allowed() const;
  bool accepts(const Value& value) const;
  Value read(const ConfigValue& node) const;
  std::string write(const Value& value) const;
};

/// Listed words, each with a value.
template <typename T>
struct OneOf {
  using Value = T;
  std::vector<std::pair<std::string_view, T>> choices;

  std::string allowed() const {
    std::string text = "one of:";
    for (const auto& [word, value] : choices) {
      text += text.back() == ':' ? " " : ", ";
      text += word;
    }
    return text;
  }
  bool accepts(const T& value) const { return word_for(value) != nullptr; }
  T read(const ConfigValue& node) const {
    if (node.kind == ConfigValue::Kind::scalar) {
      for (const auto& [word, value] : choices) {
        if (node.text == word) return value;
      }
    }
    refuse(node, allowed());
  }
  std::string write(const T& value) const {
    const std::string_view* word = word_for(value);
    return word == nullptr ? "?" : std::string(*word);
  }

 private:
  const std::string_view* word_for(const T& value) const {
    for (const auto& choice : choices) {
      if (choice.second == value) return &choice.first;
    }
    return nullptr;
  }
};

/// A value of `rule`, or null for none.
template <typename Rule>
struct OrNull {
  using Value = std::optional<typename Rule::Value>;
  Rule rule;

  std::string allowed() const { return fmt::format("{}, or null", rule.allowed()); }
  bool accepts(const Value& value) const { return !value || rule.accepts(*value); }
  Value read(const ConfigValue& node) const {
    if (node.kind == ConfigValue::Kind::null) return std::nullopt;
    return rule.read(node);
  }
  std::string write(const Value& value) const { return value ? rule.write(*value) : "null"; }
};

/// A list of two values of `rule`.
template <typename Rule>
struct PairOf {
  using Value = std::array<typename Rule::Value, 2>;
  Rule rule;

  std::string allowed() const { return fmt::format("a list of two, each {}", rule.allowed()); }
  bool accepts(const Value& value) const {
    return rule.accepts(value[0]) && rule.accepts(value[1]);
  }
  Value read(const ConfigValue& node) const {
    if (node.kind != ConfigValue::Kind::list || node.items.size() != 2) refuse(node, allowed());
    return {rule.read(node.items[0]), rule.read(node.items[1])};
  }
  std::string write(const Value& value) const {
    return fmt::format("[{}, {}]", rule.write(value[0]), rule.write(value[1]));
  }
};

/// A list of one or more values of `rule`, or also of none. A single value may be written without
/// brackets.
template <typename Rule>
struct ListOf {
  using Value = std::vector<typename Rule::Value>;
  Rule rule;
  bool may_be_empty = false;

  std::string allowed() const {
    return fmt::format("a list in brackets{}, each {}",
                       may_be_empty ? ", which may be empty" : " of one or more", rule.allowed());
  }
  bool accepts(const Value& value) const {
    for (const auto& item : value) {
      if (!rule.accepts(item)) return false;
    }
    return may_be_empty || !value.empty();
  }
  Value read(const ConfigValue& node) const {
    if (node.kind == ConfigValue::Kind::scalar) return {rule.read(node)};
    const bool is_list = node.kind == ConfigValue::Kind::list;
    if (!is_list || (node.items.empty() && !may_be_empty)) refuse(node, allowed());
    Value value;
    for (const ConfigValue& item : node.items) value.push_back(rule.read(item));
    return value;
  }
  std::string write(const Value& value) const {
    std::string text = "[";
    for (const auto& item : value) text += (text.size() == 1 ? "" : ", ") + rule.write(item);
    return text + "]";
  }
};

/// Patterns of layers' names. PEFT's names of layers become the patterns of the layers here; some
/// of several that are one layer here are refused.
struct LoraTargets : ListOf<Text> {
  Value read(const ConfigValue& node) const;
};

}  // namespace tessera
