#include "launch/checkpoint/find.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/verify.h"
#include "launch/support/text/print.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Newest first. Includes a hidden folder left by a replacement that died between its two renames:
// it is then the only checkpoint of its step.
std::vector<StepFolder> candidates(const fs::path& checkpoints) {
  std::vector<StepFolder> found = step_folders(checkpoints);
  for (const HiddenFolder& hidden : hidden_folders(checkpoints)) {
    const bool only_one = !fs::exists(checkpoints / step_name(hidden.step));
    if (hidden.kind == HiddenKind::replaced && only_one) {
      found.push_back({hidden.step, hidden.path});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const StepFolder& a, const StepFolder& b) { return a.step > b.step; });
  return found;
}

/// Returns the folder as a path that ends in its name, so that parent_path() is the folder it is
/// in; the parent of "run/" would be "run".
fs::path ending_in_name(const fs::path& path) {
  const fs::path folder = path.has_filename() ? path : path.parent_path();
  const bool has_name = folder.filename() != "." && folder.filename() != "..";
  return has_name ? folder : fs::canonical(folder);
}

std::optional<fs::path> newest_whole_in(const fs::path& checkpoints,
                                        const ReportSkipped& report_skipped,
                                        int64_t before_step = INT64_MAX) {
  constexpr int kMostLooks = 100;
  for (int looks = 1;; ++looks) {
    bool pruned = false;
    for (const StepFolder& folder : candidates(checkpoints)) {
      if (folder.step >= before_step) continue;
      const VerifyReport report = verify_checkpoint(folder.path);
      if (report.whole()) return folder.path;
      // A live run that prunes a checkpoint while its bytes are read has saved a newer one.
      pruned = !fs::exists(folder.path) && looks < kMostLooks;
      if (pruned) break;
      if (report_skipped) report_skipped(to_string(report));
    }
    if (!pruned) return std::nullopt;
  }
}

}  // namespace

std::optional<fs::path> newest_intact_checkpoint(const fs::path& run_dir,
                                                 const ReportSkipped& report_skipped,
                                                 int64_t before_step) {
  return newest_whole_in(checkpoints_folder(run_dir), report_skipped, before_step);
}

std::optional<fs::path> newest_intact_checkpoint(const fs::path& run_dir,
                                                 const ReportSkipped& report_skipped,
                                                 Communicator& world, int64_t before_step) {
  std::string name;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    const auto found = newest_intact_checkpoint(run_dir, report_skipped, before_step);
    if (found) name = found->filename().string();
  });
  name = broadcast_string(world, name, 0);
  if (name.empty()) return std::nullopt;
  return checkpoints_folder(run_dir) / name;
}

void warn_of_skipped(const std::string& line) { print_error("warning: passed over {}\n", line); }

fs::path resolve_checkpoint(const fs::path& path, const ReportSkipped& report_skipped) {
  require(fs::is_directory(path), "{} is not a folder: pass a run's folder, or one of its steps",
          path.string());
  fs::path folder = ending_in_name(path);
  if (fs::exists(folder / kManifestName)) return folder;
  const bool is_run = fs::is_directory(checkpoints_folder(folder));
  const fs::path checkpoints = is_run ? checkpoints_folder(folder) : folder;
  std::vector<std::string> skipped;
  const auto found =
      newest_whole_in(checkpoints, [&](const std::string& line) { skipped.push_back(line); });
  if (!found && skipped.empty()) {
    fail("there is no checkpoint in {}: {}", path.string(),
         is_run || fs::exists(folder / "config.yaml") ? "the run has saved none yet"
         : fs::exists(folder / "config.json")
             ? "it is a Hugging Face folder: tessera import makes a run of it"
             : "pass a run's folder, or one of its steps");
  }
  require(found.has_value(), "there is no intact checkpoint in {}:\n  {}", checkpoints.string(),
          fmt::join(skipped, "\n  "));
  if (report_skipped) std::ranges::for_each(skipped, report_skipped);
  return *found;
}

fs::path resolve_checkpoint(const fs::path& path, Communicator& world,
                            const ReportSkipped& report_skipped) {
  std::string found;
  all_or_none(world, [&] {
    if (world.rank() == 0) found = resolve_checkpoint(path, report_skipped).string();
  });
  return broadcast_string(world, found, 0);
}

}  // namespace tessera
