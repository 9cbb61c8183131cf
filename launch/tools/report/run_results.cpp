#include "launch/tools/report/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::optional<double> median_of(const RunSeries* series) {
  if (series == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const RunPoint& point : *series) {
    if (!std::isnan(point.value)) values.push_back(point.value);
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The first of the points with the largest `sign` × value.
std::optional<RunPoint> best_of(const RunSeries* series, double sign) {
  std::optional<RunPoint> best;
  if (series == nullptr) return best;
  for (const RunPoint& point : *series) {
    if (std::isnan(point.value)) continue;
    if (!best || sign * point.value > sign * best->value) best = point;
  }
  return best;
}

/// The last `count` parts of a path.
std::string path_end(const fs::path& path, size_t count) {
  const std::vector<fs::path> parts(path.begin(), path.end());
  fs::path end;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i) {
    end /= parts[i];
  }
  return end.string();
}

}  // namespace

std::vector<KeyDifference> key_differences(const std::vector<RunRecord>& runs) {
  std::vector<std::map<std::string_view, std::string_view>> values;
  for (const RunRecord& run : runs) {
    auto& of_run = values.emplace_back();
    for (const NamedValue& key : run.config) of_run.emplace(key.name, key.value);
  }
  std::vector<KeyDifference> differences;
  std::set<std::string_view> seen;
  for (const RunRecord& run : runs) {
    for (const NamedValue& key : run.config) {
      if (!seen.insert(key.name).second) continue;
      KeyDifference difference{key.name, {}};
      for (const auto& of_run : values) {
        const auto found = of_run.find(key.name);
        difference.values.push_back(
            found == of_run.end() ? std::nullopt : std::optional(std::string(found->second)));
      }
      const auto& first = difference.values.front();
      const bool differs =
          std::ranges::any_of(difference.values, [&](const auto& value) { return value != first; });
      if (differs) differences.push_back(std::move(difference));
    }
  }
  return differences;
}

bool is_choice_accuracy(const RunRecord& run, const std::string& key) {
  return key.starts_with("eval_") && key.ends_with("_acc") && run.find(key + "_norm") != nullptr;
}

RunResults results_of(const RunRecord& run) {
  RunResults results;
  results.eval_loss = best_of(run.find("eval_ema_loss"), -1.0);
  if (!results.eval_loss) results.eval_loss = best_of(run.find("eval_loss"), -1.0);
  if (const RunSeries* loss = run.find("loss")) {
    for (const RunPoint& point : *loss) {
      if (!std::isnan(point.value)) results.loss = point;
    }
  }
  results.accuracy = best_of(run.find("eval_document_accuracy"), 1.0);
  if (!results.accuracy) results.accuracy = best_of(run.find("eval_token_accuracy"), 1.0);
  results.tokens_per_second = median_of(run.find("tokens_per_second"));
  results.mfu = median_of(run.find("mfu"));
  constexpr size_t kBefore = std::string_view("eval_").size(), kAfter = 4;
  for (const auto& [key, series] : run.series) {
    if (!is_choice_accuracy(run, key) || series.empty()) continue;
    results.choices.emplace_back(key.substr(kBefore, key.size() - kBefore - kAfter),
                                 series.back().value);
  }
  return results;
}

RunSeries thinned(const RunSeries& series, size_t most) {
  if (series.size() <= std::max<size_t>(most, 4)) return series;
  constexpr size_t kPerPart = 3;
  const size_t inner = series.size() - 2;
  const size_t parts = std::max<size_t>(1, (std::max<size_t>(most, 4) - 2) / kPerPart);
  RunSeries kept = {series.front()};
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = 1 + inner * part / parts, end = 1 + inner * (part + 1) / parts;
    std::set<size_t> chosen;
    std::optional<size_t> least, largest, not_finite;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(series[i].value)) {
        not_finite = not_finite.value_or(i);
        continue;
      }
      if (!least || series[i].value < series[*least].value) least = i;
      if (!largest || series[i].value > series[*largest].value) largest = i;
    }
    for (const auto& index : {least, largest, not_finite}) {
      if (index) chosen.insert(*index);
    }
    for (const size_t index : chosen) kept.push_back(series[index]);
  }
  kept.push_back(series.back());
  return kept;
}

std::vector<std::string> short_names(const std::vector<RunRecord>& runs) {
  std::vector<fs::path> paths;
  size_t longest = 1;
  for (const RunRecord& run : runs) {
    fs::path path = fs::path(run.path).lexically_normal();
    if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
    longest = std::max(longest, static_cast<size_t>(std::distance(path.begin(), path.end())));
    paths.push_back(std::move(path));
  }
  std::vector<std::string> names;
  for (size_t count = 1; count <= longest; ++count) {
    names.clear();
    for (const fs::path& path : paths) names.push_back(path_end(path, count));
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

}  // namespace tessera
