#include "launch/config/schema_list.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "launch/config/schema.h"

namespace tessera {
namespace {

template <typename Rule>
std::vector<std::string> words_of(const Rule& rule) {
  std::vector<std::string> words;
  if constexpr (std::is_same_v<Rule, TrueOrFalse>) words = {"true", "false"};
  if constexpr (requires { rule.choices; }) {
    for (const auto& choice : rule.choices) words.emplace_back(choice.first);
  }
  return words;
}

/// By the distance of the member from the start of a configuration.
template <typename Rule>
class RuleAccess final : public KeyAccess {
 public:
  using Value = typename Rule::Value;

  RuleAccess(Rule rule, std::ptrdiff_t offset) : rule_(std::move(rule)), offset_(offset) {}

  void read(const ConfigValue& value, RunConfig& config) const override {
    in(config) = rule_.read(value);
  }
  std::string write(const RunConfig& config) const override { return rule_.write(in(config)); }
  bool accepts(const RunConfig& config) const override { return rule_.accepts(in(config)); }
  void copy(const RunConfig& from, RunConfig& to) const override { in(to) = in(from); }

 private:
  Value& in(RunConfig& config) const {
    return *reinterpret_cast<Value*>(reinterpret_cast<char*>(&config) + offset_);
  }
  const Value& in(const RunConfig& config) const {
    return *reinterpret_cast<const Value*>(reinterpret_cast<const char*>(&config) + offset_);
  }

  Rule rule_;
  std::ptrdiff_t offset_;
};

/// Lists the sections, and the keys of each.
struct Lister {
  const RunConfig& defaults;
  std::vector<SectionInfo> sections = {};

  void operator()(std::string_view name, const auto& section, std::string_view meaning) {
    sections.push_back({std::string(name), std::string(meaning), {}});
    describe(section, *this);
  }

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule,
                  std::string_view meaning) {
    const std::ptrdiff_t offset =
        reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(&defaults);
    const std::string full_name = fmt::format("{}.{}", sections.back().name, key.name);
    require(offset >= 0 && offset <= static_cast<std::ptrdiff_t>(sizeof defaults - sizeof value),
            "{} is no member of RunConfig", full_name);
    sections.back().keys.push_back({std::string(key.name), full_name, key.required, key.derived,
                                    key.by_kind, std::string(key.alternative),
                                    rule.allowed() + (key.derived ? ", or auto" : ""),
                                    rule.write(value), std::string(meaning), words_of(rule),
                                    std::make_shared<RuleAccess<Rule>>(rule, offset)});
    KeyInfo& info = sections.back().keys.back();
    if (key.derived && !info.words.empty()) info.words.emplace_back("auto");
  }
};

/// The restricted Damerau-Levenshtein distance ("optimal string alignment").
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<SectionInfo>& config_sections() {
  static const std::vector<SectionInfo> sections = [] {
    const RunConfig defaults;
    Lister lister{defaults};
    describe(defaults, lister);
    return lister.sections;
  }();
  return sections;
}

const std::vector<KeyInfo>& model_keys() {
  return std::ranges::find(config_sections(), "model", &SectionInfo::name)->keys;
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most) {
  constexpr size_t kLongest = 64;  // keys are much shorter
  if (word.size() > kLongest) return {};
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    // Larger distances mean a different word.
    if (distance < word.size() / 3 + 2 && distance < candidate.size()) {
      near.emplace_back(distance, candidate);
    }
  }
  std::ranges::stable_sort(near, {}, &decltype(near)::value_type::first);
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near) {
    if (names.size() == most || distance > near.front().first + 1) break;
    names.push_back(std::move(candidate));
  }
  return names;
}

}  // namespace tessera
