#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// An object of a tokenizer.json: says of each of its settings whether Tessera does what it asks
/// for. What is not asked after is refused in the end, so that nothing is ignored by mistake.
class HuggingFacePart {
 public:
  /// Throws, starting with `where`, if `json` is not an object.
  HuggingFacePart(const Json& json, const std::string& where);

  /// Its "type"; empty if there is none.
  std::string type() const;
  const JsonObject& object() const { return object_; }
  const std::string& where() const { return object_.where(); }

  /// Throws unless the setting is missing or has one of these values.
  void must_be(const char* key, std::initializer_list<Json> allowed);
  /// The setting has been, or is going to be, looked at, or makes no difference to tokens.
  void know(std::initializer_list<const char*> keys);
  /// Throws, naming it, if there is a setting that was in neither.
  void refuse_others() const;

 private:
  const Json& json_;
  JsonObject object_;
  std::vector<std::string> known_;
};

/// Throws: `where` has a part of this type, or null if it is empty, and must be one of `allowed`.
[[noreturn]] void refuse_type(const std::string& where, const std::string& type,
                              std::string_view allowed);

}  // namespace tessera
