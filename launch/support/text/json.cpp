#include "launch/support/text/json.h"

#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/support/files/small_file.h"

namespace tessera {

namespace {

/// Builds the value of a text, and checks it on the way. (The library's callbacks take quadratic
/// time: at the end of each object they search its parent for discarded values.)
class Builder final : public Json::json_sax_t {
 public:
  explicit Builder(const std::string& source) : source_(source) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(Json::binary(std::move(value))); }
  bool start_object(size_t /*elements*/) override { return open(Json::object()); }
  bool start_array(size_t /*elements*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    require(!open_.back()->contains(name), "{} has the key {} twice in one object", source_,
            quote(name));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t byte, const std::string& /*token*/,
                   const Json::exception& error) override {
    if (dynamic_cast<const Json::parse_error*>(&error) != nullptr) {
      fail("{} is not valid JSON, {}", source_, json_problem(byte, error));
    }
    fail("{} is not valid JSON: {}", source_, quote(error.what()));
  }

 private:
  bool add(Json value) {
    put(std::move(value));
    return true;
  }

  bool open(Json value) {
    require(open_.size() < size_t{kMaxJsonDepth}, "{} nests JSON more than {} levels deep", source_,
            kMaxJsonDepth);
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  /// Puts a value where it belongs: into the innermost open object or array.
  Json* put(Json value) {
    require(++values_ <= kMaxJsonValues, "{} has more than {} JSON values", source_,
            kMaxJsonValues);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  const std::string& source_;
  Json root_;
  size_t values_ = 0;
  std::vector<Json*> open_;  // stay in place: only the innermost one grows
  std::string key_;          // of the next value in an object
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  // The library would treat a zero byte as the end.
  const size_t zero = text.find('\0');
  require(zero == std::string_view::npos, "{}: is not valid JSON: byte {} is zero", source,
          zero + 1);
  Builder builder(source);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path, size_t most_bytes) {
  return parse_json(read_small_file(path.string(), most_bytes), path.string());
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
          value.is_string() ? quote(value.get_ref<const std::string&>())
                            : quote(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return value.get<int64_t>();
}

std::string_view json_type(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

JsonObject::JsonObject(const Json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  require(value.is_object(), "{} must be an object, but is {}", where_, json_type(value));
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
  require(value.is_boolean(), "{}: \"{}\" must be true or false, but is {}", where_, key,
          json_type(value));
  return value.get<bool>();
}

std::string JsonObject::text(const char* key) const {
  const Json& value = at(key);
  require(value.is_string(), "{}: \"{}\" must be a string, but is {}", where_, key,
          json_type(value));
  const auto& text = value.get_ref<const std::string&>();
  require(text.size() <= kMaxJsonText, "{}: \"{}\" has {} bytes, but at most {} are allowed",
          where_, key, text.size(), kMaxJsonText);
  return text;
}

const Json& JsonObject::list(const char* key) const {
  const Json& value = at(key);
  require(value.is_array(), "{}: \"{}\" must be a list, but is {}", where_, key, json_type(value));
  return value;
}

const Json& JsonObject::object(const char* key) const {
  const Json& value = at(key);
  require(value.is_object(), "{}: \"{}\" must be an object, but is {}", where_, key,
          json_type(value));
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
