#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/source_text.h"

namespace tessera {

/// A node of parsed YAML, before interpretation. Scalars keep their text; the key decides what is a
/// number.
struct YamlNode {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;             ///< of a scalar
  bool quoted = false;          ///< a scalar in quotes, or a block of text (| or >)
  std::vector<YamlNode> keys;   ///< of a map: scalars in the text's order, duplicates included
  std::vector<YamlNode> items;  ///< of a list; in a map, the value of each key
  TextPosition position;
};

/// Reads one YAML document; empty text yields a null node. Throws, with name, line and column, on
/// syntax errors, anchors, aliases, tags, keys that are not scalars, nesting deeper than a
/// configuration needs, and a second document.
YamlNode read_yaml(const SourceText& source);

}  // namespace tessera
