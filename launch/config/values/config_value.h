#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/values/source_text.h"

namespace tessera {

/// A value of a configuration before a rule interprets it, from YAML or JSON. Scalars keep their
/// text; the key decides what is a number.
struct ConfigValue {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;                ///< of a scalar
  bool quoted = false;             ///< a scalar in quotes, or a block of text (| or >)
  std::vector<ConfigValue> keys;   ///< of a map: scalars in the text's order, duplicates included
  std::vector<ConfigValue> items;  ///< of a list; in a map, the value of each key
  TextPosition position;           ///< in a YAML file

  /// Whether this is `word`, without quotes.
  bool is_word(std::string_view word) const {
    return kind == Kind::scalar && !quoted && text == word;
  }
};

}  // namespace tessera
