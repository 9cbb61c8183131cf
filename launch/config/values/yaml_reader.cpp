#include "launch/config/values/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

/// Sections, keys and lists need three levels; the rest allows for more specific error messages.
constexpr size_t kMaxDepth = 8;

TextPosition position_of(const YAML::Mark& mark) {
  return mark.is_null() ? TextPosition{} : TextPosition{mark.line + 1, mark.column + 1};
}

/// Whether a quoted scalar at the start of `text` has its closing quote before the line ends.
bool closes_on_its_line(std::string_view text) {
  const char quote = text[0];
  for (size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    const std::string_view two = text.substr(i, 2);
    const bool escaped = quote == '"' ? two[0] == '\\' && two != "\\\n" : two == "''";
    if (escaped) {
      ++i;
    } else if (text[i] == quote) {
      return true;
    }
  }
  return false;
}

/// Whether the scalar that begins at `text` is on one line. yaml-cpp joins lines, and ends an
/// unclosed quote at the end of the indentation.
bool stands_on_its_line(std::string_view text, const ConfigValue& scalar) {
  if (!scalar.quoted) return text.substr(0, scalar.text.size()) == scalar.text;
  const std::string_view first = text.substr(0, 1);
  return (first == "\"" || first == "'") && closes_on_its_line(text);
}

/// Builds the tree from yaml-cpp's events. Its nodes drop duplicate keys and quoting, and resolve
/// aliases before they can be refused.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const SourceText& source) : source_(source) {}

  ConfigValue take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    require(++documents_ == 1, "{}: a second YAML document; a configuration is a single one",
            source_.at(position_of(mark)));
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(ConfigValue::Kind::null, mark, "", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    ConfigValue node = make(ConfigValue::Kind::scalar, mark, tag, anchor);
    node.text = value;
    node.quoted = tag == kQuotedTag;
    require(stands_on_its_line(text_at(mark), node),
            "{}: a text must end on its line: close its quote, or write it on one line",
            source_.at(node.position));
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(ConfigValue::Kind::list, mark, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(ConfigValue::Kind::map, mark, tag, anchor));
  }
  void OnMapEnd() override { close(); }

 private:
  // The tags that yaml-cpp reports for untagged scalars.
  static constexpr const char* kQuotedTag = "!";
  static constexpr const char* kPlainTag = "?";

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    fail(
        "{}: anchors and aliases (& and *) are not supported: write the value out, or quote a text "
        "that starts with & or *",
        source_.at(position_of(mark)));
  }

  /// The source from `mark` on; its column and position count bytes.
  std::string_view text_at(const YAML::Mark& mark) const {
    const std::string_view text = source_.text;
    return text.substr(std::min(static_cast<size_t>(std::max(mark.pos, 0)), text.size()));
  }

  ConfigValue make(ConfigValue::Kind kind, const YAML::Mark& mark, const std::string& tag,
                   YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    require(tag.empty() || tag == kQuotedTag || tag == kPlainTag,
            "{}: the tag '{}' is not supported: remove it, since every key has a fixed type",
            source_.at(position_of(mark)), excerpt(tag));
    ConfigValue node;
    node.kind = kind;
    node.position = position_of(mark);
    return node;
  }

  void open(ConfigValue node) {
    require(open_.size() < kMaxDepth,
            "{}: nested deeper than {} levels; a configuration is "
            "sections of keys",
            source_.at(node.position), kMaxDepth);
    open_.push_back(std::move(node));
  }

  void close() {
    ConfigValue node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  void add(ConfigValue node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    ConfigValue& parent = open_.back();
    if (parent.kind == ConfigValue::Kind::map && parent.keys.size() == parent.items.size()) {
      require(node.kind == ConfigValue::Kind::scalar,
              "{}: a key is missing, or is a list or a map; keys are words",
              source_.at(node.position));
      parent.keys.push_back(std::move(node));
    } else {
      parent.items.push_back(std::move(node));
    }
  }

  const SourceText& source_;
  std::vector<ConfigValue> open_;  ///< maps and lists that are still open
  ConfigValue root_;
  int documents_ = 0;
};

}  // namespace

ConfigValue read_yaml(const SourceText& source) {
  check_config_text(source);
  TreeBuilder builder(source);
  try {
    std::istringstream stream(source.text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail("{}: not valid YAML: {}; check indentation, quotes and brackets",
         source.at(position_of(error.mark)), error.msg);
  }
  return builder.take_root();
}

}  // namespace tessera
