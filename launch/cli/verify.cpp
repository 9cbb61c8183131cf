#include "launch/checkpoint/verify.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> checkpoints_at(const fs::path& path) {
  require(fs::is_directory(path), "{} is not a folder: pass a run's folder, or one of its steps",
          path.string());
  const bool is_step = fs::exists(path / kManifestName) || step_of(path.filename().string());
  if (is_step) return {path};
  const bool is_run = fs::is_directory(checkpoints_folder(path));
  std::vector<fs::path> found;
  for (const StepFolder& folder : step_folders(is_run ? checkpoints_folder(path) : path)) {
    found.push_back(folder.path);
  }
  require(!found.empty(), "there are no checkpoints in {}", path.string());
  return found;
}

void verify_all(const fs::path& path) {
  const auto checkpoints = checkpoints_at(path);
  size_t damaged = 0;
  for (const fs::path& checkpoint : checkpoints) {
    const VerifyReport report = verify_checkpoint(checkpoint);
    print_out("{}\n", to_string(report));
    if (!report.whole()) ++damaged;
  }
  require(damaged == 0, "{} of {} checkpoints in {} are damaged", damaged, checkpoints.size(),
          path.string());
}

}  // namespace

void add_verify_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("verify", "Verify the checksums of checkpoints");
  const auto path = std::make_shared<std::string>();
  command->add_option("PATH", *path, "Folder of a run or of one checkpoint")->required();
  command->callback([command, path] {
    fs::path folder(*path);
    if (!folder.has_filename()) folder = folder.parent_path();  // "run/" is "run"
    run_on_first_rank(command_line_of(*command), [&] { verify_all(folder); });
  });
}

}  // namespace tessera
