#include "launch/support/input/json_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

/// SAX handler for nlohmann's parser that stores only the requested field. A handler that returns
/// false stops the parser.
class FieldReader {
 public:
  FieldReader(const std::string& field, std::string& text) : field_(field), text_(text) {}

  // Types as json_type() names them.
  bool null() { return found("null"); }
  bool boolean(bool) { return found("a boolean"); }
  bool number_integer(int64_t) { return found("a number"); }
  bool number_unsigned(uint64_t) { return found("a number"); }
  bool number_float(double, const std::string&) { return found("a number"); }
  bool binary(Json::binary_t&) { return found("binary"); }
  bool string(std::string& value) {
    if (!at_field_) return found("a string");
    at_field_ = false;
    text_ = std::move(value);
    return true;
  }

  bool start_object(size_t) { return (depth_ == 0 || found("an object")) && start(); }
  bool start_array(size_t) { return found("an array") && start(); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }

  bool key(const std::string& name) {
    if (depth_ != 1) return true;
    at_field_ = name == field_;
    if (at_field_ && seen_) return refuse(fmt::format("has the field {} twice", quote(name)));
    seen_ = seen_ || at_field_;
    if (names_.size() <= kShownNames) names_.push_back(quote(name));
    return true;
  }

  bool parse_error(size_t byte, const std::string& token, const Json::exception& error) {
    constexpr int kNumberOverflow = 406;  // valid JSON, but the library stops here
    if (error.id == kNumberOverflow) {
      return refuse(fmt::format("has a number too large to read, {}, which ends at byte {}",
                                quote(token), byte));
    }
    return refuse(fmt::format("is not valid JSON, {}", json_problem(byte, error)));
  }

  /// Describes the problem with a line that was parsed completely or up to an error.
  std::optional<std::string> problem() {
    if (!problem_ && !seen_) {
      if (names_.size() > kShownNames) names_.back() = "...";
      problem_ = fmt::format(
          "has no field {}, but {}", quote(field_),
          names_.empty() ? "no field at all" : fmt::format("{}", fmt::join(names_, ", ")));
    }
    return problem_;
  }

 private:
  static constexpr size_t kShownNames = 8;

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  /// Called for values that are not strings.
  bool found(std::string_view type) {
    if (depth_ == 0) return refuse(fmt::format("is {}, but must be a JSON object", type));
    if (!std::exchange(at_field_, false)) return true;
    return refuse(
        fmt::format("has a field {} that must be a string, but is {}", quote(field_), type));
  }

  bool start() {
    if (++depth_ <= kMaxJsonDepth) return true;
    return refuse(fmt::format("nests JSON more than {} levels deep", kMaxJsonDepth));
  }

  bool end() {
    --depth_;
    return true;
  }

  const std::string& field_;
  std::string& text_;
  int depth_ = 0;
  bool at_field_ = false;  ///< the next value belongs to the field
  bool seen_ = false;
  std::vector<std::string> names_;  ///< some of the line's field names
  std::optional<std::string> problem_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Collects text and marks.
class TextCollector final : public TextSink {
 public:
  explicit TextCollector(TextPart& part) : part_(part) {}

  void add(std::string_view text) override { part_.text += text; }
  void end_sequence() override { mark(Mark::Ends::sequence); }
  void end_document() override { mark(Mark::Ends::document); }

  /// Adds a document of one sequence. A long one is the only document of its part, and is moved.
  void add_document(std::string& text) {
    if (part_.text.empty()) {
      part_.text.swap(text);
    } else {
      part_.text += text;
    }
    end_document();
  }

 private:
  void mark(Mark::Ends ends) { part_.marks.push_back({part_.text.size(), ends}); }

  TextPart& part_;
};

}  // namespace

std::optional<std::string> read_json_field(std::string_view line, const std::string& field,
                                           std::string& text) {
  // The library would treat a zero byte as the end.
  const size_t zero = line.find('\0');
  if (zero != std::string_view::npos) {
    return fmt::format("is not valid JSON: byte {} is zero", zero + 1);
  }
  if (line.substr(std::min(line.find_first_not_of(" \t"), line.size())).starts_with('[')) {
    return "is an array, but must be a JSON object: write one on each line, as jq -c '.[]' does";
  }
  FieldReader reader(field, text);
  Json::sax_parse(line.begin(), line.end(), &reader);
  return reader.problem();
}

JsonDocuments read_json_lines(const TextLines& lines, const JsonLinesOptions& options) {
  JsonDocuments result;
  TextCollector documents(result.text);
  std::string text;
  std::string_view rest = lines.text;
  for (int64_t number = lines.first_line; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (is_blank(line)) continue;
    const auto problem = read_json_field(line, options.field, text);
    if (!problem) {
      if (options.sentences == Sentences::none) {
        documents.add_document(text);
      } else {
        DocumentSplitter splitter(Documents::file, options.sentences, documents);
        splitter.add(text);
        splitter.end_file();
      }
      continue;
    }
    const std::string what = fmt::format("{}:{}: the line {}", lines.path, number, *problem);
    require(options.skip_malformed, "{}; skip such lines with --skip-malformed", what);
    if (result.malformed_lines++ == 0) result.first_malformed = what;
  }
  return result;
}

}  // namespace tessera
