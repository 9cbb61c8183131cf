#include "launch/huggingface/export/earlier_export.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/huggingface/sentence_modules.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

bool is_name_of_weights(std::string_view name) {
  constexpr std::string_view kStart = "model", kEnd = ".safetensors";
  if (name == "adapter_model.safetensors") return true;
  return name.size() >= kStart.size() + kEnd.size() && name.substr(0, kStart.size()) == kStart &&
         name.substr(name.size() - kEnd.size()) == kEnd;
}

bool is_name_of_another_file(std::string_view name) {
  constexpr std::array<std::string_view, 14> kNames = {"config.json",
                                                       "generation_config.json",
                                                       "model.safetensors.index.json",
                                                       "tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "preprocessor_config.json",
                                                       "vocab.txt",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "tokenizer.model",
                                                       "modules.json",
                                                       "sentence_bert_config.json",
                                                       "config_sentence_transformers.json",
                                                       "adapter_config.json"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// A folder with nothing but the config.json of sentence-transformers' pooling.
bool is_pooling(const fs::directory_entry& entry) {
  if (entry.path().filename() != kPoolingFolder) return false;
  if (!fs::is_directory(entry.symlink_status())) return false;
  return std::ranges::all_of(fs::directory_iterator(entry.path()), [](const auto& file) {
    return file.path().filename() == "config.json" && fs::is_regular_file(file.symlink_status());
  });
}

bool has_mark(const fs::path& weights) {
  try {
    return SafetensorsFile(weights, ForeignDTypes::keep).metadata().count(kExportMark) == 1;
  } catch (const Error&) {
    return false;  // damaged or in another format: not written by an export
  }
}

}  // namespace

std::optional<std::string> not_an_export_reason(const fs::path& folder) {
  bool empty = true, has_weights = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    empty = false;
    const std::string name = entry.path().filename().string();
    const bool is_weights = is_name_of_weights(name);
    if (is_pooling(entry)) continue;
    if (!fs::is_regular_file(entry.symlink_status()) ||
        !(is_weights || is_name_of_another_file(name))) {
      return fmt::format("holds {}, which no export writes", name);
    }
    if (is_weights && !has_mark(entry.path())) {
      return fmt::format("holds {}, which was not written by `tessera export`", name);
    }
    has_weights |= is_weights;
  }
  if (empty || has_weights) return std::nullopt;
  return "holds no weights of an earlier export";
}

}  // namespace tessera
