#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/error.h"
#include "launch/huggingface/import/import_tokenizer.h"
#include "launch/support/text/json.h"
#include "launch/support/text/printable_text.h"
#include "launch/support/text/table.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A string or a list of strings of config.json as text; "not said" if it is missing.
std::string said(const Json& config, const char* key) {
  if (!config.contains(key)) return "not said";
  return printable(to_text(config[key]));
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string tokenizer_text(const fs::path& folder) {
  try {
    return to_string(identity_of(*import_tokenizer(folder, std::nullopt).tokenizer));
  } catch (const Error& error) {
    return fmt::format("none: {}", error.what());
  }
}

}  // namespace

std::string describe_hugging_face(const fs::path& folder) {
  const std::string path = (folder / "config.json").string();
  const Json config = read_json_file(path);
  require(config.is_object(), "{} must be an object, but is {}", path, json_type(config));
  std::string text = fmt::format(
      "{}: a Hugging Face model; `tessera import` converts supported ones to a checkpoint\n",
      folder.string());
  text += description_line("class", said(config, "architectures"));
  text += description_line("type", said(config, "model_type"));
  text += description_line("vocabulary", said(config, "vocab_size"));
  text += description_line("tokenizer", tokenizer_text(folder));
  for (const fs::path& weights : weight_files(folder)) text += describe_safetensors(weights);
  return text;
}

}  // namespace tessera
