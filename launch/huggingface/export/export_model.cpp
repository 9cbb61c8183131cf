#include "launch/huggingface/export/export_model.h"

#include "core/error.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/label_names.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/huggingface/export/earlier_export.h"
#include "launch/huggingface/export/export_adapter.h"
#include "launch/huggingface/export/export_config.h"
#include "launch/huggingface/export/export_tokenizer.h"
#include "launch/huggingface/export/export_weights.h"
#include "launch/huggingface/image_processor.h"
#include "launch/huggingface/sentence_modules.h"
#include "launch/huggingface/tensor_names.h"
#include "launch/support/files/output_file.h"
#include "launch/support/files/staged_folder.h"
#include "models/architecture.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.sync_and_close();
}

std::vector<std::string> notes_on(const ModelConfig& model, const Tokenizer& tokenizer) {
  std::vector<std::string> notes;
  if (!model.linear_bias() && preset(model.kind).linear_bias()) {
    notes.emplace_back("model.bias is false: the biases of Hugging Face's model are zeros");
  }
  if (architecture_of(model.kind).token_types && model.token_types == 0) {
    notes.emplace_back(
        "model.token_types is 0: the embedding of token types of Hugging Face's model is zeros");
  }
  if (model.has_mup()) {
    notes.push_back(
        fmt::format("model.mup_base_hidden_size is {}: what scales attention scores and logits is "
                    "multiplied into the weights, because Hugging Face's model has no key for it",
                    model.mup_base_hidden_size));
  }
  if (tokenizer.vocab_size() < model.vocab_size) {
    notes.push_back(fmt::format("the last {} of the {} rows of the vocabulary belong to no token",
                                model.vocab_size - tokenizer.vocab_size(), model.vocab_size));
  }
  return notes;
}

/// The id of the padding token, after which RoBERTa counts positions.
int64_t padding_token_of(const ModelConfig& model, const Tokenizer& tokenizer) {
  if (model.kind != ModelKind::roberta) return kRobertaPadding;
  const std::optional<int32_t> padding = tokenizer.special().padding;
  require(padding.has_value(),
          "the model cannot be exported: RoBERTa in transformers counts positions from the id of "
          "the padding token, but the tokenizer has none; choose bert as model.kind for such data");
  return *padding;
}

int64_t count_parameters(const ModelConfig& model) {
  int64_t count = 0;
  for (const TensorName& name : tensor_names(model)) {
    if (!name.ours.empty()) count += name.shape.numel();
  }
  return count;
}

/// generation_config.json and, in the tokenizer's configuration, the template of the messages that
/// the model learned from, if it did. The token that ends a reply then ends a text, too.
Json generation_config(const Checkpoint& checkpoint, const Tokenizer& tokenizer,
                       ExportedTokenizer& exported) {
  Json ids = exported.ids;
  const std::shared_ptr<const ChatForm> chat = checkpoint_chat(checkpoint);
  const auto settings = exported.files.find("tokenizer_config.json");
  if (!chat || settings == exported.files.end()) return ids;
  Json config = parse_json(settings->second, settings->first);
  config["chat_template"] = chat->jinja;
  for (const auto& [name, token] : chat->jinja_tokens) config[name] = token;
  settings->second = config.dump(2) + "\n";
  if (!chat->problem.empty()) return ids;
  const int32_t reply_end = ChatTemplate(chat, tokenizer).reply_end();
  if (ids["eos_token_id"] != reply_end) ids["eos_token_id"] = {ids["eos_token_id"], reply_end};
  return ids;
}

int64_t count_adapter_parameters(const Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    if (is_of_low_rank_adapter(name)) count += tensor.shape.numel();
  }
  return count;
}

}  // namespace

ExportReport export_model(const ExportOptions& options) {
  const fs::path step = resolve_checkpoint(options.checkpoint);
  Checkpoint checkpoint = Checkpoint::open(step);
  if (options.ema) checkpoint.use_average();
  const ModelConfig model = model_from_json(checkpoint.manifest().model);
  const ModelClass model_class = model_class_of(model);
  const auto tokenizer = tokenizer_of(checkpoint);
  const int64_t padding_token = padding_token_of(model, *tokenizer);
  ExportedTokenizer exported = export_tokenizer(*tokenizer, model);

  const Json generation = generation_config(checkpoint, *tokenizer, exported);

  StagedFolder folder(options.to, options.overwrite, not_an_export_reason);
  ExportReport report{
      step,
      options.adapter ? fmt::format("adapters of a {}", to_string(model_class))
                      : std::string(to_string(model_class)),
      options.adapter ? count_adapter_parameters(checkpoint) : count_parameters(model),
      {},
      notes_on(model, *tokenizer)};
  if (options.ema) report.notes.emplace_back("the weights are the run's averaged ones");
  if (!exported.note.empty()) report.notes.push_back(exported.note);
  std::map<std::string, std::string>& files = exported.files;
  if (!options.adapter) {
    files["config.json"] =
        export_config(model, model_class, options.precision, exported.ids,
                      names_of_labels(read_run_state(checkpoint.manifest()).labels))
            .dump(2) +
        "\n";
    if (traits_of(model).causal) {
      files["generation_config.json"] = generation.dump(2) + "\n";
    }
    files.merge(image_processor_files(model));
  }
  files.merge(sentence_module_files(model));
  for (const auto& [name, text] : files) {
    fs::create_directories((folder.staged() / name).parent_path());
    write_file(folder.staged() / name, text);
    report.files.push_back(name);
  }
  const std::vector<std::string> weights =
      options.adapter ? export_adapter(checkpoint, model, padding_token, options.precision,
                                       options.base, folder.staged())
                      : export_weights(checkpoint, model, padding_token, options.precision,
                                       options.max_shard_bytes, folder.staged());
  report.files.insert(report.files.end(), weights.begin(), weights.end());
  folder.publish();
  return report;
}

}  // namespace tessera
