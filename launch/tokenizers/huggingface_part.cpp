#include "launch/tokenizers/huggingface_part.h"

#include <algorithm>

#include "core/error.h"

namespace tessera {

HuggingFacePart::HuggingFacePart(const Json& json, const std::string& where)
    : json_(json), object_(json, where), known_{"type"} {}

std::string HuggingFacePart::type() const {
  return object_.has("type") ? object_.text("type") : std::string();
}

void HuggingFacePart::must_be(const char* key, std::initializer_list<Json> allowed) {
  know({key});
  if (!object_.has(key)) return;
  const Json& value = object_.at(key);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  std::string choices;
  for (const Json& choice : allowed) choices += (choices.empty() ? "" : " or ") + choice.dump();
  const std::string shown = value.is_structured() ? std::string(json_type(value))
                            : value.is_string()   ? quote(value.get<std::string>())
                                                  : value.dump();
  fail("{}: \"{}\" is {}, but only {} is supported", where(), key, shown, choices);
}

void HuggingFacePart::know(std::initializer_list<const char*> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void HuggingFacePart::refuse_others() const {
  for (const auto& [key, value] : json_.items()) {
    require(std::find(known_.begin(), known_.end(), key) != known_.end(),
            "{}: has {}, whose effect on tokens is unknown: it is not supported", where(),
            quote(key));
  }
}

void refuse_type(const std::string& where, const std::string& type, std::string_view allowed) {
  fail("{} is {}, but only {} is supported", where, type.empty() ? "missing" : quote(type),
       allowed);
}

std::string where_part(const std::string& source, const char* key) {
  return fmt::format("{}: \"{}\"", source, key);
}

const Json& part_of(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.find(key);
  return found == json.end() ? none : *found;
}

HuggingFacePart required_part(const Json& json, const char* key, const std::string& source,
                              const std::string& type) {
  const std::string where = where_part(source, key);
  if (part_of(json, key).is_null()) refuse_type(where, "", quote(type));
  HuggingFacePart part(part_of(json, key), where);
  if (part.type() != type) refuse_type(where, part.type(), quote(type));
  return part;
}

}  // namespace tessera
