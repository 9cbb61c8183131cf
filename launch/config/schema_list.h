#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/config/values/config_value.h"

namespace tessera {

/// Access to the value of a key in any configuration, by its rule in schema.h.
class KeyAccess {
 public:
  virtual ~KeyAccess() = default;
  /// Throws "is ..., but must be ..." as the rule does (values/value_rule.h).
  virtual void read(const ConfigValue& value, RunConfig& config) const = 0;
  virtual std::string write(const RunConfig& config) const = 0;
  virtual bool accepts(const RunConfig& config) const = 0;
  virtual void copy(const RunConfig& from, RunConfig& to) const = 0;
};

/// A key of schema.h.
struct KeyInfo {
  std::string name;
  std::string full_name;  ///< "train.steps"
  bool required = false;
  bool derived = false;
  bool by_kind = false;     ///< whether the default depends on model.kind
  std::string alternative;  ///< a key of the section that a file may have instead; or ""
  std::string allowed;
  std::string default_value;  ///< YAML; meaningless for a required or derived key
  std::string meaning;
  std::vector<std::string> words;  ///< all of its values, if they are a few words
  std::shared_ptr<const KeyAccess> access;
};

struct SectionInfo {
  std::string name;
  std::string meaning;
  std::vector<KeyInfo> keys;
};

/// All sections and keys of schema.h, in its order.
const std::vector<SectionInfo>& config_sections();

/// The keys of the section `model`.
const std::vector<KeyInfo>& model_keys();

/// The candidates that `word` most likely misspells (letters omitted, added, changed or swapped
/// with their neighbor), nearest first: at most `most`, and none with more than one mistake more
/// than the first. Empty if none is near.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most);

}  // namespace tessera
