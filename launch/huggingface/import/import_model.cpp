#include "launch/huggingface/import/import_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/save/save.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/huggingface/image_processor.h"
#include "launch/huggingface/import/chat/import_chat.h"
#include "launch/huggingface/import/import_config.h"
#include "launch/huggingface/import/import_tokenizer.h"
#include "launch/huggingface/import/match_tensors.h"
#include "launch/huggingface/import/tensor_maker.h"
#include "launch/huggingface/sentence_modules.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/mapped_file.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/train/start/run_lock.h"
#include "models/architecture.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

Json read_config(const fs::path& path) {
  require(
      fs::is_directory(path.parent_path()),
      "{} is not a folder: pass a folder that save_pretrained() or `hf download` wrote, because "
      "import downloads nothing",
      path.parent_path().string());
  const fs::path folder = path.parent_path();
  require(fs::exists(path) ||
              !(fs::exists(folder / kManifestName) || fs::is_directory(checkpoints_folder(folder))),
          "{} is a run of Tessera, which needs no import: commands read it as it is, and "
          "checkpoint.from starts another run from it",
          folder.string());
  return read_small_json(path);
}

/// Refuses a model that was saved with its adapters beside the weights that they change.
void refuse_adapted_layers(const ForeignWeights& weights, const fs::path& folder) {
  for (const auto& [name, place] : weights.tensors()) {
    require(name.find(".lora_A.") == std::string::npos,
            "{} has low-rank adapters beside the model's weights, as in {}: save the result of "
            "merge_and_unload(), or the adapters alone, which --base imports",
            folder.string(), quote(name));
  }
}

std::vector<LocalTensor> local_tensors(const std::vector<TensorName>& names, TensorMaker& maker) {
  std::vector<LocalTensor> tensors;
  for (const TensorName& name : names) {
    const Tensor meta(nullptr, name.shape, DType::f32, kMeta);
    tensors.push_back({name.ours, kModelKind, name.shape, box_of({}, name.shape), meta,
                       [&] { return maker.make(name); }});
  }
  return tensors;
}

/// Notes if the texts of Tessera's encoder–decoder begin or end with other tokens.
void note_ends(const Tokenizer& tokenizer, ImportedConfig& config) {
  if (!config.decoder_start) return;
  const std::optional<SequenceEnds> ends = find_sequence_ends(tokenizer);
  if (!ends) {
    config.notes.emplace_back(
        "this tokenizer has no token that ends a text, which an encoder-decoder needs to train and "
        "to generate");
    return;
  }
  const auto compare = [&](const char* key, std::optional<int64_t> theirs, int32_t ours) {
    if (!theirs || *theirs == ours) return;
    config.notes.push_back(
        fmt::format("\"{}\" is {}, but with this tokenizer, Tessera uses {}", key, *theirs, ours));
  };
  compare("decoder_start_token_id", config.decoder_start, ends->start);
  compare("eos_token_id", config.end_token, ends->end);
}

}  // namespace

void require_no_checkpoints(const fs::path& run) {
  const auto steps = step_folders(checkpoints_folder(run));
  require(steps.empty(), "{} holds {}: nothing was overwritten; choose another folder",
          run.string(), steps.empty() ? "" : steps.front().path.string());
}

void require_usable(const ModelConfig& model, const fs::path& from) {
  (void)model_from_json(architecture_json(model), fmt::format("the model of {}", from.string()));
}

ImportReport import_model(const ImportOptions& options) {
  const fs::path config_path = options.from / "config.json";
  const Json json = read_config(config_path);
  ImportedConfig config = import_config(json, config_path.string(), options.architecture);
  if (config.model.head == Head::embedding) {
    read_sentence_modules(options.from, config.model, config.notes);
  }
  if (config.model.has_images()) read_image_processor(options.from, config);
  const ForeignWeights weights(options.from);
  refuse_adapted_layers(weights, options.from);
  if (config.tied_unless_stored && has_own_head(weights, config.model_class)) {
    config.model.tie_embeddings = false;
  }
  const std::vector<TensorName> names = tensor_names(config.model, config.padding_token);
  const MatchedTensors matched = match_tensors(weights, names, config.model_class, config.tied);
  require(!config.model.has_images() || !options.tokenizer || options.tokenizer == kNoTokenizer,
          "--tokenizer is {}, but {} is a model of images, which have no text: leave it out",
          options.tokenizer.value_or(""), options.from.string());
  const bool none = options.tokenizer == kNoTokenizer || config.model.has_images();
  require(
      none || options.special_tokens.empty(),
      "--special-token is for models without a tokenizer: leave it out, or add --tokenizer none");
  const ImportedTokenizer tokenizer =
      none ? import_ids(json, config.model.vocab_size, options.special_tokens)
           : import_tokenizer(options.from, options.tokenizer);
  require(tokenizer.tokenizer->vocab_size() <= config.model.vocab_size,
          "the tokenizer {} has {} tokens, but \"vocab_size\" in {} is {}", tokenizer.spec,
          tokenizer.tokenizer->vocab_size(), config_path.string(), config.model.vocab_size);

  note_ends(*tokenizer.tokenizer, config);
  std::optional<ChatForm> chat;
  if (traits_of(config.model).causal && !none) {
    chat = import_chat_form(options.from, *tokenizer.tokenizer, config.notes);
  }
  require_usable(config.model, config_path);
  const NewFolders folders(checkpoints_folder(options.to));
  const RunLock lock(options.to.string());
  require_no_checkpoints(options.to);
  TensorMaker maker(weights, matched.stored);
  SaveRequest request;
  request.run_dir = options.to;
  request.in_a_run = false;
  request.model = architecture_json(config.model);
  RunState run;
  run.tokenizer = tokenizer.spec;
  run.imported_from = options.from.string();
  if (!config.labels.empty()) run.labels = fmt::format("{}", fmt::join(config.labels, ","));
  request.extra = to_extra(run);
  request.attachments[kTokenizerAttachment] = tokenizer_attachment(*tokenizer.tokenizer);
  if (chat) request.attachments[kChatTemplateAttachment] = chat_attachment(*chat);
  request.tensors = local_tensors(names, maker);
  const auto world = make_self_communicator();
  const SavedCheckpoint saved = save_checkpoint(request, *world);

  ImportReport report{
      saved.path,     std::string(to_string(config.model_class)), config.model,     config.labels,
      tokenizer.spec, identity_of(*tokenizer.tokenizer),          matched.left_out, config.notes};
  if (!weights.wrappers().empty() && weights.wrappers() != "model.") {
    report.notes.push_back(
        fmt::format("left {} out of the tensors' names, which a wrapper of the "
                    "training program put there",
                    quote(weights.wrappers())));
  }
  report.notes.insert(report.notes.end(), saved.warnings.begin(), saved.warnings.end());
  return report;
}

}  // namespace tessera
