#include "launch/data/datasets/label_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "core/error.h"

namespace tessera {
namespace {

void check_labels(const Labels& labels) {
  if (labels.problem_type == ProblemType::regression) return;
  require(labels.count >= 2, "there are {} labels, but classification needs at least 2",
          labels.count);
  if (labels.names.empty()) return;
  require(static_cast<int64_t>(labels.names.size()) == labels.count,
          "there are {} label names for {} labels", labels.names.size(), labels.count);
  for (auto name = labels.names.begin(); name != labels.names.end(); ++name) {
    require(std::find(labels.names.begin(), name, *name) == name,
            "the label name {} is given twice", quote(*name));
  }
}

/// "0 to 2", or the names.
std::string allowed(const Labels& labels) {
  constexpr size_t kShown = 20;
  if (labels.names.empty()) return fmt::format("an integer from 0 to {}", labels.count - 1);
  std::vector<std::string> shown;
  for (const std::string& name :
       std::span(labels.names).first(std::min(kShown, labels.names.size()))) {
    shown.push_back(quote(name));
  }
  if (labels.names.size() > kShown) {
    shown.push_back(fmt::format("and {} more", labels.names.size() - kShown));
  }
  return fmt::format("one of {}", fmt::join(shown, ", "));
}

[[noreturn]] void fail_label(std::string_view found, const Labels& labels,
                             const std::string& where) {
  fail("{}: the label is {}, but must be {}; {}", where, found, allowed(labels),
       labels.names.empty() ? "for names, list them in data.labels"
                            : "for numbers, set data.labels to null");
}

/// An integer that is the whole text.
std::optional<int64_t> integer_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace

std::string shown(const Json& value) {
  constexpr size_t kShown = 200;
  return value.dump(-1, ' ', /*ensure_ascii=*/true).substr(0, kShown);
}

KnownLabels::KnownLabels(const Labels& labels) : labels_(labels) { check_labels(labels); }

int32_t KnownLabels::of_json(const Json& value, const std::string& where) {
  if (!labels_.names.empty() && value.is_string()) {
    return of_name(value.get_ref<const std::string&>(), where);
  }
  const std::optional<int64_t> number = integer_of(value);
  if (!labels_.names.empty() || !number) fail_label(shown(value), labels_, where);
  return of_number(*number, where);
}

int32_t KnownLabels::of_column(std::string_view text, const std::string& where) {
  if (!labels_.names.empty()) return of_name(text, where);
  const std::optional<int64_t> number = integer_of(text);
  if (!number) fail_label(quote(text), labels_, where);
  return of_number(*number, where);
}

int32_t KnownLabels::of_name(std::string_view name, const std::string& where) const {
  const auto found = std::ranges::find(labels_.names, name);
  if (found == labels_.names.end()) fail_label(quote(name), labels_, where);
  return static_cast<int32_t>(found - labels_.names.begin());
}

int32_t KnownLabels::of_number(int64_t number, const std::string& where) const {
  if (number < 0 || number >= labels_.count) {
    fail_label(fmt::to_string(number), labels_, where);
  }
  return static_cast<int32_t>(number);
}

void KnownLabels::of_multi_hot(size_t count, const std::string& where) {
  require(static_cast<int64_t>(count) == labels_.count,
          "{}: the labels are 1 or 0 for each of {} labels, but there are {}: choose that many",
          where, count, labels_.count);
}

void FoundLabels::of_multi_hot(size_t count, const std::string& where) {
  require(!json_names_ && names_.empty(),
          "{}: the labels are 1 or 0 for each of {} labels, but other lines have names: use one of "
          "the two",
          where, count);
  json_numbers_ = true;
  numbers_.insert(static_cast<int64_t>(count) - 1);
}

int32_t FoundLabels::of_json(const Json& value, const std::string& where) {
  const std::optional<int64_t> number = integer_of(value);
  require(value.is_string() || (number && *number >= 0),
          "{}: the label is {}, but must be a name or an integer from 0", where, shown(value));
  json_numbers_ = json_numbers_ || number;
  json_names_ = json_names_ || value.is_string();
  require(!json_numbers_ || !json_names_,
          "{}: the label is {}, but earlier lines have {}: use one of the two", where, shown(value),
          number ? "names" : "numbers");
  if (number) {
    numbers_.insert(*number);
  } else {
    names_.insert(value.get<std::string>());
  }
  return 0;
}

int32_t FoundLabels::of_column(std::string_view text, const std::string& /*where*/) {
  names_.emplace(text);
  return 0;
}

Labels FoundLabels::labels(std::optional<int64_t> count) const {
  if (json_numbers_) return {count.value_or(*numbers_.rbegin() + 1)};
  const auto found = static_cast<int64_t>(names_.size());
  if (!json_names_ && is_numbered(count.has_value())) return {count.value_or(found)};
  return {found, {names_.begin(), names_.end()}};
}

bool FoundLabels::is_numbered(bool any) const {
  if (any) {
    return std::ranges::all_of(names_,
                               [](std::string_view name) { return integer_of(name).has_value(); });
  }
  int64_t expected = 0;
  while (names_.contains(fmt::to_string(expected))) ++expected;
  return expected == static_cast<int64_t>(names_.size());
}

}  // namespace tessera
