#pragma once

#include <initializer_list>
#include <string>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {

/// Reads keys that may be missing or null, which means the default of `transformers`.
class ForeignJson {
 public:
  ForeignJson(const Json& json, const std::string& where) : object_(json, where), json_(json) {}

  const std::string& where() const { return object_.where(); }
  bool has(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  bool is_list(const char* key) const { return has(key) && json_.at(key).is_array(); }
  bool is_flag(const char* key) const { return has(key) && json_.at(key).is_boolean(); }
  /// Whether the key is present, perhaps as null.
  bool names(const char* key) const { return json_.contains(key); }
  /// The value of the first name that is present.
  int64_t count(std::initializer_list<const char*> names, int64_t by_default) const {
    for (const char* name : names) {
      if (has(name)) return object_.count(name);
    }
    return by_default;
  }
  double number(const char* key, double by_default) const {
    if (!has(key)) return by_default;
    require(json_.at(key).is_number(), "{}: \"{}\" must be a number, but is {}", where(), key,
            json_type(json_.at(key)));
    return json_.at(key).get<double>();
  }
  bool flag(const char* key, bool by_default) const {
    if (!has(key)) return by_default;
    require(json_.at(key).is_boolean(), "{}: \"{}\" must be true or false, but is {}", where(), key,
            json_type(json_.at(key)));
    return json_.at(key).get<bool>();
  }
  std::string text(const char* key, const char* by_default) const {
    return has(key) ? object_.text(key) : by_default;
  }
  const Json& object(const char* key) const { return object_.object(key); }
  const Json& list(const char* key) const { return object_.list(key); }

  /// Throws unless the flag is `wanted`, which is also the default.
  void require_flag(const char* key, bool wanted, const char* why) const {
    require(flag(key, wanted) == wanted, "{}: \"{}\" is {}, but must be {}: {}", where(), key,
            !wanted, wanted, why);
  }
  /// Throws unless the text is one of `known`; the first is the default.
  void require_text(const char* key, std::initializer_list<const char*> known) const {
    const std::string value = text(key, *known.begin());
    std::string list;
    for (const char* name : known) {
      if (value == name) return;
      list += (list.empty() ? "" : " or ") + quote(name);
    }
    fail("{}: \"{}\" is {}, but must be {}: Tessera's model supports nothing else", where(), key,
         quote(value), list);
  }
  /// Throws if the key has a non-empty value.
  void require_empty(const char* key, const char* why) const {
    require(!has(key) || json_.at(key).empty(), "{}: \"{}\" is set, and {}", where(), key, why);
  }

 private:
  JsonObject object_;
  const Json& json_;
};

}  // namespace tessera
