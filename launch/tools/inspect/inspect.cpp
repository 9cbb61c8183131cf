#include "launch/tools/inspect/inspect.h"

#include <fmt/format.h>

#include "core/error.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/huggingface/import/import_tokenizer.h"
#include "launch/tokenizers/tokenizer_spec.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The prefix of the dataset that a path refers to: the path itself, or one of the dataset's files.
std::optional<std::string> dataset_prefix(const std::string& path) {
  std::string prefix = path;
  for (const std::string_view ending : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
    if (path.ends_with(ending)) prefix.resize(path.size() - ending.size());
  }
  return fs::is_regular_file(prefix + ".idx") ? std::optional(prefix) : std::nullopt;
}

/// Refuses an option that does not apply to what is at the path.
void check_options(const InspectOptions& options, bool dataset, bool tokenizer, bool run = false) {
  const auto check = [&](bool given, bool fits, const char* name, const char* of) {
    require(!given || fits, "inspect: {} is for {}, which {} is not", name, of,
            quote(options.path));
  };
  check(options.tokenizer.has_value(), dataset, "--tokenizer", "a dataset");
  check(options.documents.has_value(), dataset, "--documents", "a dataset");
  check(options.document.has_value(), dataset, "--document", "a dataset");
  check(options.sample.has_value(), run, "--sample", "a run or its config.yaml");
  check(options.text.has_value(), tokenizer, "--text", "a tokenizer");
}

/// The tokenizer of a file or folder, if the name reveals its kind.
std::unique_ptr<Tokenizer> tokenizer_at(const fs::path& path) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json"}) {
    if (fs::exists(path / name)) return import_tokenizer(path, std::nullopt).tokenizer;
  }
  if (!fs::is_regular_file(path)) return nullptr;
  if (path.extension() == ".model") return make_tokenizer("sentencepiece:" + path.string());
  if (path.extension() == ".json") return make_tokenizer("huggingface:" + path.string());
  return nullptr;
}

std::string dataset_text(const std::string& prefix, const InspectOptions& options) {
  constexpr int64_t kDocuments = 3;
  check_options(options, /*dataset=*/true, /*tokenizer=*/false);
  const auto tokenizer = options.tokenizer ? make_tokenizer(*options.tokenizer) : nullptr;
  return describe_dataset(prefix, tokenizer.get(), options.documents.value_or(kDocuments),
                          options.document);
}

std::string tokenizer_text(const Tokenizer& tokenizer, const InspectOptions& options) {
  check_options(options, /*dataset=*/false, /*tokenizer=*/true);
  return describe_tokenizer(tokenizer, options.text);
}

}  // namespace

std::string inspect(const InspectOptions& options) {
  fs::path path(options.path);
  if (!path.has_filename()) path = path.parent_path();  // "run/" is "run"
  if (const auto prefix = dataset_prefix(path.string())) return dataset_text(*prefix, options);
  if (!fs::exists(path) && is_tokenizer_spec(options.path)) {
    return tokenizer_text(*make_tokenizer(options.path), options);
  }
  const bool is_checkpoint = fs::exists(path / kManifestName);
  const bool is_run =
      fs::is_directory(checkpoints_folder(path)) || fs::exists(path / "config.yaml");
  const bool is_model = fs::exists(path / "config.json");
  if (!is_checkpoint && !is_run && !is_model) {
    if (const auto tokenizer = tokenizer_at(path)) return tokenizer_text(*tokenizer, options);
  }
  const bool is_config = fs::is_regular_file(path) && path.extension() == ".yaml";
  check_options(options, /*dataset=*/false, /*tokenizer=*/false,
                is_config || fs::exists(path / "config.yaml"));
  if (options.sample) {
    return describe_sample(is_config ? path : path / "config.yaml", *options.sample);
  }
  if (is_checkpoint) return describe_checkpoint(path);
  if (is_run) return describe_run(path);
  if (is_model) return describe_hugging_face(path);
  if (fs::is_regular_file(path) && path.extension() == ".safetensors") {
    return describe_safetensors(path);
  }
  fail(
      "{} {}: pass the folder of a run or of a checkpoint, the prefix of a dataset, a .safetensors "
      "file, a Hugging Face folder, or a tokenizer, {}",
      quote(options.path),
      fs::exists(path) ? "is nothing that inspect can describe" : "does not exist",
      tokenizer_specs_allowed());
}

}  // namespace tessera
