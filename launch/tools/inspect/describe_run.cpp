#include <fmt/format.h>

#include "core/error.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/config/load_config.h"
#include "launch/support/input/json_log.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/json.h"
#include "launch/support/text/table.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// data.tokenizer; if that is auto, the tokenizer in the newest checkpoint that has one.
std::string tokenizer_text(const fs::path& folder, const RunConfig& config) {
  if (!config.automatic.contains("data.tokenizer")) return config.data.tokenizer;
  for (const StepFolder& step : step_folders(checkpoints_folder(folder))) {
    try {
      return to_string(identity_of(*tokenizer_of(Checkpoint::open(step.path))));
    } catch (const Error&) {
      continue;  // damaged, which its row says
    }
  }
  return "auto";
}

std::string config_text(const fs::path& folder) {
  const fs::path path = folder / "config.yaml";
  if (!fs::exists(path)) return description_line("config", "none: " + path.string());
  try {
    const RunConfig config = load_config(path);
    return description_line("model", human_model(config.model)) +
           description_line("tokenizer", tokenizer_text(folder, config)) +
           description_line("steps", fmt::format("{}, each of {} sequences",
                                                 grouped(config.train.steps), config.batch.global));
  } catch (const Error& error) {
    return description_line("config", error.what());
  }
}

/// The newest line of a run's metrics that has all `keys`, as "step 20, loss 3.2".
std::string newest_metrics(const fs::path& folder, const std::vector<std::string>& keys) {
  std::string newest = "none";
  for_each_json_line(folder / "metrics.jsonl", [&](const JsonLogLine& line) {
    const Json& json = line.object;
    std::string text;
    for (const std::string& key : keys) {
      if (!json.contains(key) || !json[key].is_number()) break;
      if (!text.empty()) text += ", ";
      text += json[key].is_number_integer()
                  ? fmt::format("{} {}", key, json[key].get<int64_t>())
                  : fmt::format("{} {}", key, measured(json[key].get<double>()));
      if (&key == &keys.back()) newest = text;
    }
  });
  return newest;
}

/// A step's folder in one row. A damaged one does not hide the others.
std::vector<std::string> step_row(const StepFolder& step) {
  const std::string name = step.path.filename().string();
  try {
    const Manifest manifest = read_manifest(step.path);
    int64_t bytes = 0, optimizer = 0;
    for (const auto& [file, stored] : manifest.files) bytes += stored.size;
    for (const auto& [tensor, stored] : manifest.tensors) {
      if (stored.kind == kOptimizerKind) ++optimizer;
    }
    return {name, grouped(manifest.samples), std::to_string(manifest.files.size()),
            human_bytes(static_cast<size_t>(bytes)),
            optimizer > 0 ? "weights and optimizer" : "weights"};
  } catch (const Error& error) {
    return {name, "", "", "", fmt::format("damaged: {}", error.what())};
  }
}

}  // namespace

std::string describe_run(const fs::path& folder) {
  std::string text = fmt::format("{}: a run\n", folder.string());
  text += config_text(folder);
  text += description_line("trained", newest_metrics(folder, {"step", "loss"}));
  text += description_line("evaluated", newest_metrics(folder, {"step", "eval_loss"}));
  const std::vector<StepFolder> steps = step_folders(checkpoints_folder(folder));
  if (steps.empty()) return text + description_line("saved", "nothing");
  std::vector<std::vector<std::string>> rows = {{"checkpoint", "samples", "files", "size", "has"}};
  for (const StepFolder& step : steps) rows.push_back(step_row(step));
  return text + table(rows, {1, 2, 3});
}

}  // namespace tessera
