#include "launch/support/text/json.h"

#include <limits>
#include <set>
#include <vector>

#include "core/error.h"

namespace tessera {

Json parse_json(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;  // of the open objects
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      require(depth < kMaxJsonDepth, "{} nests JSON more than {} levels deep", source,
              kMaxJsonDepth);
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      require(keys.back().insert(key).second, "{} has the key {} twice in one object", source,
              quote(key));
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::parse_error& error) {
    fail("{} is not valid JSON, {}", source, json_problem(error.byte, error));
  } catch (const Json::exception& error) {
    fail("{} is not valid JSON: {}", source, quote(error.what()));
  }
}

std::string json_problem(size_t byte, const Json::exception& error) {
  // Drop the library's line numbers, which refer to this text only.
  const std::string_view what = error.what();
  const size_t detail = what.find("syntax error");
  return fmt::format("at byte {}: {}", byte,
                     quote(detail == std::string_view::npos ? what : what.substr(detail)));
}

std::string to_text(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception& error) {
    fail("a value cannot be written as JSON: {}", quote(error.what()));
  }
}

std::string quote(std::string_view text) {
  constexpr size_t kMost = 200;
  const bool cut = text.size() > kMost;
  const Json value = std::string(text.substr(0, kMost)) + (cut ? "..." : "");
  return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

int64_t json_count(const Json& value, const std::string& what) {
  // Parsed non-negative integers are always number_unsigned; values created in code may not be.
  const bool is_count =
      value.is_number_unsigned()
          ? value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
          : value.is_number_integer() && value.get<int64_t>() >= 0;
  require(is_count, "{} must be an integer from 0 to 2^63 - 1, but is {}", what,
          quote(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return value.get<int64_t>();
}

JsonObject::JsonObject(const Json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  require(value.is_object(), "{} must be an object, but is a {}", where_, value.type_name());
}

const Json& JsonObject::at(const char* key) const {
  const auto found = value_.find(key);
  require(found != value_.end(), "{} has no \"{}\"", where_, key);
  return *found;
}

int64_t JsonObject::count(const char* key) const {
  return json_count(at(key), fmt::format("{}: \"{}\"", where_, key));
}

bool JsonObject::flag(const char* key) const {
  const Json& value = at(key);
  require(value.is_boolean(), "{}: \"{}\" must be true or false, but is a {}", where_, key,
          value.type_name());
  return value.get<bool>();
}

std::string JsonObject::text(const char* key) const {
  const Json& value = at(key);
  require(value.is_string(), "{}: \"{}\" must be a string, but is a {}", where_, key,
          value.type_name());
  const auto& text = value.get_ref<const std::string&>();
  require(text.size() <= kMaxJsonText, "{}: \"{}\" has {} bytes, but at most {} are allowed",
          where_, key, text.size(), kMaxJsonText);
  return text;
}

const Json& JsonObject::list(const char* key) const {
  const Json& value = at(key);
  require(value.is_array(), "{}: \"{}\" must be a list, but is a {}", where_, key,
          value.type_name());
  return value;
}

const Json& JsonObject::object(const char* key) const {
  const Json& value = at(key);
  require(value.is_object(), "{}: \"{}\" must be an object, but is a {}", where_, key,
          value.type_name());
  return value;
}

Shape JsonObject::shape(const char* key) const {
  const Json& value = list(key);
  require(value.size() <= size_t{Shape::kMaxDims},
          "{}: \"{}\" has {} dimensions, but at most {} are allowed", where_, key, value.size(),
          Shape::kMaxDims);
  Shape shape;
  for (const Json& extent : value) {
    shape.push_back(json_count(extent, fmt::format("{}: \"{}\"", where_, key)));
  }
  return shape;
}

}  // namespace tessera
