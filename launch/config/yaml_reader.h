#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/source_text.h"

namespace tessera {

/// What YAML text says, before anything is made of it. Scalars keep their text: what is a number is
/// for the key to decide.
struct YamlNode {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;             ///< of a scalar
  bool quoted = false;          ///< a scalar in quotes, or a block of text (| or >)
  std::vector<YamlNode> keys;   ///< of a map, all scalars, in the text's order, doubles included
  std::vector<YamlNode> items;  ///< a list's; a map's values, one for each key
  TextPosition position;
};

/// Reads one YAML document; text without any gives a null node. Throws, with name, line and column,
/// on syntax errors, anchors, aliases, tags, keys that are not scalars, nesting deeper than a
/// configuration can be, and a second document.
YamlNode read_yaml(const SourceText& source);

}  // namespace tessera
