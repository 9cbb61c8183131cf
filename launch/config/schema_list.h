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
  bool by_kind = false;     ///< whether the default depends on model.kind
  std::string alternative;  ///< a key of the section that a file may have instead; or ""
  std::string allowed;
  std::string default_value;  ///< YAML; meaningless for a required or derived key
  std::string meaning;
  std::vector<std::string> words;  ///< all of its values, if they are a few words
};

struct SectionInfo {
  std::string name;
  std::string meaning;
  std::vector<KeyInfo> keys;
};

/// All sections and keys of schema.h, in its order.
const std::vector<SectionInfo>& config_sections();

/// The candidates that `word` most likely misspells (letters omitted, added, changed or swapped
/// with their neighbor), nearest first: at most `most`, and none with more than one mistake more
/// than the first. Empty if none is near.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most);

}  // namespace tessera
