#include "launch/huggingface/sentence_modules.h"

#include <array>
#include <string_view>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxModuleBytes = size_t{16} << 20;
constexpr const char* kMean = "pooling_mode_mean_tokens";
constexpr const char* kCls = "pooling_mode_cls_token";

/// A module in modules.json: the last part of its class, and its folder.
struct Module {
  std::string type, path;
};

Module module_of(const Json& json, const std::string& where) {
  const JsonObject object(json, where);
  const std::string type = object.text("type");
  return {type.substr(type.rfind('.') + 1), object.text("path")};
}

/// The pooling that a config.json of Pooling selects.
Pooling pooling_of(const Json& json, const std::string& where) {
  require(json.is_object(), "{}: must be an object", where);
  std::string chosen;
  if (json.contains("pooling_mode") && json.at("pooling_mode").is_string()) {  // later versions
    const std::string mode = json.at("pooling_mode").get<std::string>();
    chosen = mode == "mean" ? kMean : mode == "cls" ? kCls : mode;
  }
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with("pooling_mode_") || value != true) continue;
    require(chosen.empty() || chosen == key,
            "{}: both \"{}\" and \"{}\" are set, but an embedding has one pooling", where, chosen,
            key);
    chosen = key;
  }
  require(chosen == kMean || chosen == kCls, "{}: {}, but only \"{}\" and \"{}\" are supported",
          where, chosen.empty() ? "no pooling is set" : quote(chosen) + " is set", kMean, kCls);
  return chosen == kMean ? Pooling::mean : Pooling::cls;
}

}  // namespace

Json read_small_json(const fs::path& path) { return read_json_file(path, kMaxModuleBytes); }

void read_sentence_modules(const fs::path& folder, ModelConfig& model,
                           std::vector<std::string>& notes) {
  const fs::path path = folder / "modules.json";
  if (!fs::exists(path)) {
    const bool mean = model.embedding_pooling == Pooling::mean;
    notes.push_back(fmt::format("there is no modules.json, so texts are embedded by the {}",
                                mean ? "mean of their hidden states" : "hidden state of [CLS]"));
    return;
  }
  const std::string where = path.string();
  const Json modules = read_small_json(path);
  require(modules.is_array(), "{}: must be a list of modules", where);
  bool pooled = false, normalized = false;
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module module = module_of(modules[i], fmt::format("{}: module {}", where, i));
    if (module.type == "Transformer" && i == 0) {
      require(module.path.empty(), "{}: the Transformer is in {}: import that folder", where,
              quote(module.path));
    } else if (module.type == "Pooling" && i == 1) {
      require(module.path.find("..") == std::string::npos && !module.path.starts_with('/'),
              "{}: {} is not a folder within this one", where, quote(module.path));
      const fs::path file = folder / module.path / "config.json";
      model.embedding_pooling = pooling_of(read_small_json(file), file.string());
      pooled = true;
    } else if (module.type == "Normalize" && i == 2) {
      normalized = true;
    } else {
      fail(
          "{}: module {} is {}, but only Transformer, Pooling and Normalize, in this order, are "
          "supported",
          where, i, quote(module.type));
    }
  }
  require(pooled, "{}: there is no Pooling", where);
  if (!normalized) {
    notes.emplace_back(
        "the embeddings have length 1, which sentence-transformers leaves to the similarity");
  }
}

std::map<std::string, std::string> sentence_module_files(const ModelConfig& model) {
  if (model.head != Head::embedding) return {};
  constexpr std::string_view kModuleClasses = "sentence_transformers.models.";
  Json modules = Json::array();
  constexpr std::array<std::array<std::string_view, 2>, 3> kModules = {
      {{"Transformer", ""}, {"Pooling", kPoolingFolder}, {"Normalize", "2_Normalize"}}};
  for (size_t i = 0; i < kModules.size(); ++i) {
    modules.push_back({{"idx", i},
                       {"name", std::to_string(i)},
                       {"path", kModules[i][1]},
                       {"type", fmt::format("{}{}", kModuleClasses, kModules[i][0])}});
  }
  const bool mean = model.embedding_pooling == Pooling::mean;
  const Json pooling = {{"word_embedding_dimension", model.hidden_size},
                        {kCls, !mean},
                        {kMean, mean},
                        {"pooling_mode_max_tokens", false},
                        {"pooling_mode_mean_sqrt_len_tokens", false},
                        {"pooling_mode_weightedmean_tokens", false},
                        {"pooling_mode_lasttoken", false},
                        {"include_prompt", true}};
  const Json texts = {{"max_seq_length", model.seq_length}, {"do_lower_case", false}};
  const Json similarity = {{"__version__", Json::object()},
                           {"prompts", Json::object()},
                           {"default_prompt_name", nullptr},
                           {"similarity_fn_name", "cosine"}};
  return {{"modules.json", modules.dump(2) + "\n"},
          {std::string(kPoolingFolder) + "/config.json", pooling.dump(2) + "\n"},
          {"sentence_bert_config.json", texts.dump(2) + "\n"},
          {"config_sentence_transformers.json", similarity.dump(2) + "\n"}};
}

}  // namespace tessera
