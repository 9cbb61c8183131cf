#include "launch/config/values/value_rule.h"

#include <algorithm>
#include <regex>

#include "core/error.h"
#include "launch/support/text/number_text.h"
#include "launch/tokenizers/tokenizer_spec.h"

namespace tessera {
namespace {

std::string found_in(const ConfigValue& node) {
  switch (node.kind) {
    case ConfigValue::Kind::null:
      return "empty";
    case ConfigValue::Kind::list:
      return fmt::format("a list of {}", node.items.size());
    case ConfigValue::Kind::map:
      return node.keys.empty() ? "an empty map" : "a map";
    case ConfigValue::Kind::scalar:
      break;
  }
  return node.quoted ? fmt::format("the quoted text \"{}\"", excerpt(node.text))
                     : excerpt(node.text);
}

/// Only a plain scalar is a number or a boolean: "4" in quotes is text.
bool is_plain(const ConfigValue& node) {
  return node.kind == ConfigValue::Kind::scalar && !node.quoted;
}

}  // namespace

void refuse(const ConfigValue& node, const std::string& allowed) {
  fail("is {}, but must be {}", found_in(node), allowed);
}

std::string IntegerIn::allowed() const { return fmt::format("an integer from {} to {}", min, max); }

int64_t IntegerIn::read(const ConfigValue& node) const {
  const auto value = is_plain(node) ? parse_integer(node.text) : std::nullopt;
  if (!value || !accepts(*value)) refuse(node, allowed());
  return *value;
}

std::string IntegerIn::write(int64_t value) const { return fmt::format("{}", value); }

std::string Duration::allowed() const {
  return fmt::format("seconds or h:mm:ss, as in 1:30:00, from 0 (no limit) to {} seconds", kMax);
}

int64_t Duration::read(const ConfigValue& node) const {
  if (!is_plain(node)) refuse(node, allowed());
  if (const auto seconds = parse_integer(node.text)) {
    if (!accepts(*seconds)) refuse(node, allowed());
    return *seconds;
  }
  static const std::regex kClock("([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])");
  std::smatch parts;
  if (!std::regex_match(node.text, parts, kClock)) refuse(node, allowed());
  const int64_t seconds =
      std::stoll(parts[1]) * 3600 + std::stoll(parts[2]) * 60 + std::stoll(parts[3]);
  if (!accepts(seconds)) refuse(node, allowed());
  return seconds;
}

std::string Duration::write(int64_t value) const { return fmt::format("{}", value); }

std::string NumberIn::allowed() const {
  return fmt::format("a number from {} to {}{}", number_text(min), max_excluded ? "below " : "",
                     number_text(max));
}

double NumberIn::read(const ConfigValue& node) const {
  const auto value = is_plain(node) ? parse_number(node.text) : std::nullopt;
  if (!value || !accepts(*value)) refuse(node, allowed());
  return *value;
}

std::string NumberIn::write(double value) const { return number_text(value); }

bool TrueOrFalse::read(const ConfigValue& node) const {
  if (is_plain(node) && node.text == "true") return true;
  if (is_plain(node) && node.text == "false") return false;
  refuse(node, allowed());
}

bool Text::accepts(const std::string& value) const {
  return !value.empty() && std::none_of(value.begin(), value.end(), is_control);
}

std::string Text::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::scalar) refuse(node, allowed());
  if (!accepts(node.text))
    refuse(node, "text of at least one character, without control characters");
  return node.text;
}

std::string Text::write(const std::string& value) const {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

bool Passage::accepts(const std::string& value) const {
  return std::none_of(value.begin(), value.end(),
                      [](char c) { return is_control(c) && c != '\n' && c != '\t'; });
}

std::string Passage::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::scalar) refuse(node, allowed());
  if (!accepts(node.text)) {
    refuse(node, "text without control characters other than line ends and tabs");
  }
  return node.text;
}

std::string Passage::write(const std::string& value) const {
  std::string quoted = "\"";
  for (const char c : value) {
    switch (c) {
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      case '"':
      case '\\':
        quoted += '\\';
        [[fallthrough]];
      default:
        quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Letters::allowed() const {
  std::string list;
  for (const char letter : letters) list += (list.empty() ? "" : " and ") + std::string(1, letter);
  return "a text of the letters " + list;
}

bool Letters::accepts(const std::string& value) const {
  return !value.empty() && value.find_first_not_of(letters) == std::string::npos;
}

std::string Letters::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::scalar || !accepts(node.text)) refuse(node, allowed());
  return node.text;
}

std::string TokenizerName::allowed() const { return tokenizer_specs_allowed(); }

bool TokenizerName::accepts(const std::string& value) const {
  return is_tokenizer_spec(value) && Text{}.accepts(value);
}

std::string TokenizerName::read(const ConfigValue& node) const {
  if (node.kind != ConfigValue::Kind::scalar || !accepts(node.text)) refuse(node, allowed());
  return node.text;
}

std::string TokenizerName::write(const std::string& value) const {
  const bool is_word = value.find(':') == std::string::npos;
  return is_word ? value : Text{}.write(value);
}

}  // namespace tessera
