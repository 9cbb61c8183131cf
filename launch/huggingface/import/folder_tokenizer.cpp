#include "launch/huggingface/import/folder_tokenizer.h"

#include <vector>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAdvice =
    "write a tokenizer.json in Python, with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
    ", or name a tokenizer with --tokenizer";

/// A JSON object from an optional file; empty without the file.
class Settings {
 public:
  explicit Settings(const fs::path& path) : where_(path.string()) {
    if (!fs::exists(path)) return;
    json_ = read_json_file(where_);
    require(json_.is_object(), "{} must be an object, but is {}", where_, json_type(json_));
  }

  bool empty() const { return json_.empty(); }

  bool flag(const char* key, bool by_default) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return by_default;
    require(found->is_boolean(), "{}: \"{}\" must be true or false, but is {}", where_, key,
            json_type(*found));
    return found->get<bool>();
  }

  /// Throws unless the flag matches the tokenizer `spec`, which is also its default.
  void require_flag(const char* key, bool wanted, const char* spec) const {
    require(flag(key, wanted) == wanted,
            "{}: \"{}\" is {}, but it is {} in a tokenizer \"{}\", which would produce other "
            "tokens: {}",
            where_, key, !wanted, wanted, spec, kAdvice);
  }

 private:
  std::string where_;
  Json json_ = Json::object();
};

void require_no_added_tokens(const fs::path& folder) {
  const fs::path path = folder / "added_tokens.json";
  require(Settings(path).empty(),
          "{} adds tokens to the vocabulary, which only a tokenizer.json can: {}", path.string(),
          kAdvice);
}

std::string wordpiece_of(const fs::path& folder, const Settings& settings) {
  const bool lower_case = settings.flag("do_lower_case", true);
  const char* kind = lower_case ? "wordpiece" : "wordpiece-cased";
  settings.require_flag("strip_accents", lower_case, kind);
  settings.require_flag("tokenize_chinese_chars", true, kind);
  settings.require_flag("do_basic_tokenize", true, kind);
  return fmt::format("{}:{}", kind, (folder / "vocab.txt").string());
}

std::string bpe_of(const fs::path& folder, const Settings& settings) {
  settings.require_flag("add_prefix_space", false, "bpe");
  return "bpe:" + folder.string();
}

/// The only SentencePiece model file, or nullopt.
std::optional<fs::path> model_file(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".model") found.push_back(entry.path());
  }
  require(found.size() < 2, "{} has {} files that end in .model: name one with --tokenizer",
          folder.string(), found.size());
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace

std::optional<std::string> folder_tokenizer(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  if (has("tokenizer.json")) return "huggingface:" + (folder / "tokenizer.json").string();
  const bool words = has("vocab.txt"), bytes = has("vocab.json") && has("merges.txt");
  const auto model = words || bytes ? std::nullopt : model_file(folder);
  if (!words && !bytes && !model) return std::nullopt;
  require_no_added_tokens(folder);
  const Settings settings(folder / "tokenizer_config.json");
  if (words) return wordpiece_of(folder, settings);
  if (bytes) return bpe_of(folder, settings);
  return "sentencepiece:" + model->string();
}

}  // namespace tessera
