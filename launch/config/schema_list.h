#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A key of schema.h as text.
struct KeyInfo {
  std::string name;
  bool required = false;
  bool derived = false;
  std::string allowed;
  std::string default_value;  ///< YAML; meaningless for a required or derived key
  std::string meaning;
};

struct SectionInfo {
  std::string name;
  std::string meaning;
  std::vector<KeyInfo> keys;
};

/// All sections and keys of schema.h, in its order.
const std::vector<SectionInfo>& config_sections();

/// The candidate that `word` most likely misspells (letters omitted, added, changed or swapped with
/// their neighbor), or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tessera
