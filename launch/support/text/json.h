#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/shape.h"

namespace tessera {

using Json = nlohmann::json;

/// Deeper nesting is refused: later passes over a value recurse.
inline constexpr int kMaxJsonDepth = 32;
/// Longer names in a checkpoint's files are refused.
inline constexpr size_t kMaxJsonText = 1000;

/// The value of a JSON text; `source` names it in messages. Throws if it is not valid JSON, nests
/// deeper than kMaxJsonDepth or gives an object the same key twice.
Json parse_json(std::string_view text, const std::string& source);

/// What the library says is wrong at this byte, from 1, of a text: "at its byte 3: ...".
std::string json_problem(size_t byte, const Json::exception& error);

/// `value` as compact JSON. Throws if a string in it is not valid UTF-8.
std::string to_text(const Json& value);

/// `text` in quotes, escaped and cut to a length that fits a message, whatever bytes it holds.
std::string quote(std::string_view text);

/// Checked read access to an object that came from a file. Messages start with `where`. The value
/// must outlive the view.
class JsonObject {
 public:
  /// Throws if `value` is not an object.
  JsonObject(const Json& value, std::string where);

  /// The value of `key`; throws if there is none.
  const Json& at(const char* key) const;
  bool has(const char* key) const { return value_.contains(key); }
  /// An integer from 0 to 2^63 - 1.
  int64_t count(const char* key) const;
  /// True or false.
  bool flag(const char* key) const;
  /// A string of at most kMaxJsonText bytes.
  std::string text(const char* key) const;
  const Json& list(const char* key) const;
  const Json& object(const char* key) const;
  /// A list of at most Shape::kMaxDims counts.
  Shape shape(const char* key) const;

  const std::string& where() const { return where_; }

 private:
  const Json& value_;
  std::string where_;
};

/// `value` as an integer from 0 to 2^63 - 1; throws, naming `what`, if it is anything else.
int64_t json_count(const Json& value, const std::string& what);

}  // namespace tessera
