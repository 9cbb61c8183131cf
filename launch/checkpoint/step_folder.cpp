#include "launch/checkpoint/step_folder.h"

#include <algorithm>
#include <regex>

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

HiddenKind hidden_kind(const std::string& name) {
  if (name == to_string(HiddenKind::replaced)) return HiddenKind::replaced;
  if (name == to_string(HiddenKind::pruned)) return HiddenKind::pruned;
  return HiddenKind::temporary;
}

// At least 8 digits, more only where they are needed: one name a step.
const char* const kStep = "step_([0-9]{8}|[1-9][0-9]{8,17})";

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may delete it meanwhile
    if (it->is_directory(gone)) found.push_back(it->path());
  }
  require(!error, "can not list {}: {}", folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

fs::path checkpoints_folder(const fs::path& run_dir) { return run_dir / "checkpoints"; }

std::string step_name(int64_t step) { return fmt::format("step_{:08}", step); }

std::optional<int64_t> step_of(const std::string& name) {
  static const std::regex pattern(kStep);
  std::smatch match;
  if (!std::regex_match(name, match, pattern)) return std::nullopt;
  return std::stoll(match[1]);
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
  static const std::regex pattern(
      fmt::format("\\.{}\\.(temporary|replaced|pruned)-[0-9a-f]+", kStep));
  std::vector<HiddenFolder> hidden;
  for (const fs::path& path : folders_in(checkpoints)) {
    std::smatch match;
    const std::string name = path.filename().string();
    if (!std::regex_match(name, match, pattern)) continue;
    hidden.push_back({std::stoll(match[1]), hidden_kind(match[2]), path});
  }
  return hidden;
}

}  // namespace tessera
