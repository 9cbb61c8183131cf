#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// An object of a tokenizer.json. Checks that Tessera supports every setting: refuse_others()
/// rejects settings that nobody asked for, so that nothing is ignored by mistake.
class HuggingFacePart {
 public:
  /// Throws, starting with `where`, if `json` is not an object.
  HuggingFacePart(const Json& json, const std::string& where);

  /// Returns its "type"; empty if missing.
  std::string type() const;
  const JsonObject& object() const { return object_; }
  const Json& json() const { return json_; }
  const std::string& where() const { return object_.where(); }

  /// Throws unless the setting is missing or has one of these values.
  void must_be(const char* key, std::initializer_list<Json> allowed);
  /// Accepts settings that are checked elsewhere or do not affect tokens.
  void know(std::initializer_list<const char*> keys);
  /// Throws, naming the setting, if there are settings not passed to must_be() or know().
  void refuse_others() const;

 private:
  const Json& json_;
  JsonObject object_;
  std::vector<std::string> known_;
};

/// Names a nullable part of the file `source` in messages.
std::string where_part(const std::string& source, const char* key);

/// Returns the member `key` of an object; null if it is missing.
const Json& part_of(const Json& json, const char* key);

/// Returns the part `key` of a file, which must have this type.
HuggingFacePart required_part(const Json& json, const char* key, const std::string& source,
                              const std::string& type);

/// Throws that `where` has a part of this type (null if empty), which is not among `allowed`.
[[noreturn]] void refuse_type(const std::string& where, const std::string& type,
                              std::string_view allowed);

}  // namespace tessera
