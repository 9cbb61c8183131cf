#include "launch/checkpoint/save/publish.h"

#include <algorithm>

#include "core/error.h"
#include "core/exit_code.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/run_state.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/output_file.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

void observe(const SaveObserver& observer, const char* point) {
  if (observer) observer(point);
}

// Runs `action`; if it throws, adds the reason to `problems`.
template <typename Action>
void attempt(std::vector<std::string>& problems, Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    problems.push_back(message_of(error));
  }
}

bool looks_whole(const fs::path& step_folder) {
  try {
    const Manifest manifest = read_manifest(step_folder);
    const auto has_size = [&](const auto& file) {
      std::error_code error;
      const auto size = fs::file_size(step_folder / file.first, error);
      return !error && size == static_cast<uintmax_t>(file.second.size);
    };
    return std::all_of(manifest.files.begin(), manifest.files.end(), has_size) &&
           std::all_of(manifest.attachments.begin(), manifest.attachments.end(), has_size);
  } catch (const Error&) {
    return false;
  }
}

bool is_by_time(const fs::path& step_folder) {
  try {
    return read_run_state(read_manifest(step_folder)).by_time;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::optional<fs::path> name_checkpoint(const HiddenFolder& temporary, const std::string& id,
                                        const SaveObserver& observer, bool may_exchange) {
  const fs::path folder = temporary.path.parent_path();
  const fs::path replaced = folder / hidden_name(temporary.step, HiddenKind::replaced, id);
  return swap_in_folder(
      temporary.path, folder / step_name(temporary.step), replaced,
      [&](const fs::path&) { observe(observer, "during_swap"); }, may_exchange);
}

std::vector<std::string> clean_up_after_dead_saves(const fs::path& checkpoints) {
  std::vector<std::string> problems;
  for (const HiddenFolder& hidden : hidden_folders(checkpoints)) {
    attempt(problems, [&] {
      const fs::path target = checkpoints / step_name(hidden.step);
      if (hidden.kind == HiddenKind::replaced && !fs::exists(target)) {
        rename_path(hidden.path, target);
      } else {
        delete_folder(hidden.path);
      }
    });
  }
  return problems;
}

std::vector<std::string> prune_checkpoints(const fs::path& checkpoints, int64_t step, int keep,
                                           std::optional<int64_t> best, const std::string& id,
                                           const SaveObserver& observer) {
  std::vector<std::string> problems;
  int whole = 0;
  for (const StepFolder& folder : step_folders(checkpoints)) {
    if (folder.step > step || (keep == 0 && folder.step == step)) continue;
    if (keep == 0 && !is_by_time(folder.path)) break;
    if (whole < keep) {
      if (looks_whole(folder.path)) ++whole;
      continue;
    }
    if (folder.step == best) continue;
    attempt(problems, [&] {
      // Under a hidden name, a half-deleted folder cannot be mistaken for a checkpoint.
      const fs::path hidden = checkpoints / hidden_name(folder.step, HiddenKind::pruned, id);
      rename_path(folder.path, hidden);
      sync_folder(checkpoints);
      observe(observer, "during_prune");
      delete_folder(hidden);
    });
  }
  return problems;
}

}  // namespace tessera
