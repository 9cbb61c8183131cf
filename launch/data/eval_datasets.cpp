#include "launch/data/eval_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The last `count` parts of a path, without extension.
std::string end_of(const std::string& path, size_t count) {
  const fs::path whole = fs::path(path).lexically_normal();
  const std::vector<fs::path> parts(whole.begin(), whole.end());
  fs::path end;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i) {
    end /= parts[i];
  }
  return valid_utf8(end.replace_extension().string());
}

}  // namespace

std::vector<std::string> dataset_names(const DataBlend& blend) {
  std::set<std::string> paths;
  size_t longest = 1;
  for (const DataBlend::Part& part : blend.parts) {
    paths.insert(part.path);
    const fs::path path = fs::path(part.path).lexically_normal();
    longest = std::max(longest, static_cast<size_t>(std::distance(path.begin(), path.end())));
  }
  size_t count = 1;
  const auto are_apart = [&] {
    std::set<std::string> ends;
    for (const std::string& path : paths) ends.insert(end_of(path, count));
    return ends.size() == paths.size();
  };
  while (count < longest && !are_apart()) ++count;
  std::vector<std::string> names;
  for (const DataBlend::Part& part : blend.parts) {
    const std::string name = end_of(part.path, count);
    std::string unique = name;
    for (int i = 2; std::ranges::find(names, unique) != names.end(); ++i) {
      unique = fmt::format("{} {}", name, i);
    }
    names.push_back(std::move(unique));
  }
  return names;
}

}  // namespace tessera
