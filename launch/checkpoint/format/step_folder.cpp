#include "launch/checkpoint/format/step_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

const char* to_string(HiddenKind kind) {
  switch (kind) {
    case HiddenKind::temporary:
      return "temporary";
    case HiddenKind::replaced:
      return "replaced";
    case HiddenKind::pruned:
      return "pruned";
  }
  return "?";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may delete it meanwhile
    if (it->is_directory(gone)) found.push_back(it->path());
  }
  require(!error, "cannot list {}: {}", folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

fs::path checkpoints_folder(const fs::path& run_dir) { return run_dir / "checkpoints"; }

std::string step_name(int64_t step) { return fmt::format("step_{:08}", step); }

std::optional<int64_t> step_of(const std::string& name) {
  constexpr size_t kPrefix = std::string_view("step_").size();
  constexpr size_t kMostDigits = 18;  // any such number fits into 63 bits
  if (name.size() <= kPrefix || name.size() > kPrefix + kMostDigits) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kPrefix, name.data() + name.size(), step);
  if (step < 0 || step_name(step) != name) return std::nullopt;  // one name per step
  return step;
}

std::vector<StepFolder> step_folders(const fs::path& checkpoints) {
  std::vector<StepFolder> steps;
  for (const fs::path& path : folders_in(checkpoints)) {
    const auto step = step_of(path.filename().string());
    if (step) steps.push_back({*step, path});
  }
  std::sort(steps.begin(), steps.end(),
            [](const StepFolder& a, const StepFolder& b) { return a.step > b.step; });
  return steps;
}

std::string hidden_name(int64_t step, HiddenKind kind, const std::string& id) {
  return fmt::format(".{}.{}-{}", step_name(step), to_string(kind), id);
}

std::vector<HiddenFolder> hidden_folders(const fs::path& checkpoints) {
  std::vector<HiddenFolder> hidden;
  for (const fs::path& path : folders_in(checkpoints)) {
    const std::string name = path.filename().string();
    const size_t dot = name.find('.', 1);
    const size_t dash = name.rfind('-');
    if (name[0] != '.' || dot == std::string::npos || dash == std::string::npos) continue;
    const auto step = step_of(name.substr(1, dot - 1));
    if (!step) continue;
    for (const HiddenKind kind :
         {HiddenKind::temporary, HiddenKind::replaced, HiddenKind::pruned}) {
      const bool is_kind = name == hidden_name(*step, kind, name.substr(dash + 1));
      if (is_kind) hidden.push_back({*step, kind, path});
    }
  }
  return hidden;
}

}  // namespace tessera
