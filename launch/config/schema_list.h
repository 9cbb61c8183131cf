#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A key of schema.h in words.
struct KeyInfo {
  std::string name;
  bool required = false;
  std::string allowed;
  std::string default_value;  ///< YAML; of no meaning for a required key
  std::string meaning;
};

struct SectionInfo {
  std::string name;
  std::string meaning;
  std::vector<KeyInfo> keys;
};

/// All sections and keys of schema.h, in its order.
const std::vector<SectionInfo>& config_sections();

/// The candidate that `word` is most likely a misspelling of (letters left out, added, changed or
/// swapped with their neighbour), or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tessera
