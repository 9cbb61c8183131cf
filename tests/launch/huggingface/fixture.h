#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/memory.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/save/save.h"
#include "launch/huggingface/export/export_model.h"
#include "launch/huggingface/import/import_model.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"
#include "models/model.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera::testing_interop {

namespace fs = std::filesystem;

using test::expect_error;

/// These models each have a Hugging Face class.
inline ModelConfig small_gpt() {
  ModelConfig model;
  model.num_layers = 2;
  model.hidden_size = 12;
  model.num_heads = 3;
  model.mlp_size = 20;
  model.seq_length = 10;
  model.vocab_size = test::kSmallVocabulary + 3;  // padded
  return model;
}

/// Llama with shared key-value heads and Llama 3's rotary scaling, Mistral with a window and wide
/// heads, Qwen2, whose heads all have keys and values, with a tied head, and Qwen3 with a window in
/// every other layer.
inline ModelConfig small_llama(ModelKind kind = ModelKind::llama) {
  ModelConfig model = small_gpt();
  apply_preset(model, kind);
  model.num_heads = 6;
  if (kind != ModelKind::qwen2) model.num_kv_heads = 2;
  if (kind == ModelKind::mistral) model.head_dim = 4;
  model.attention_window = kind == ModelKind::mistral || kind == ModelKind::qwen3 ? 4 : 0;
  if (kind == ModelKind::qwen3) model.window_pattern = "GL";
  if (kind == ModelKind::llama) {
    model.rotary.scaling = RotaryScaling::llama3;
    model.rotary.factor = 8.0;
    model.rotary.original_length = 5;
  }
  model.tie_embeddings = kind == ModelKind::qwen2;
  return model;
}

inline ModelConfig small_masked_lm() {
  ModelConfig model = small_gpt();
  apply_preset(model, ModelKind::bert);
  model.token_types = 2;
  model.norm_eps = 1e-12;
  return model;
}

inline ModelConfig small_pretraining() {
  ModelConfig model = small_masked_lm();
  model.next_sentence = true;
  return model;
}

inline ModelConfig small_classifier() {
  ModelConfig model = small_masked_lm();
  model.head = Head::classification;
  model.num_labels = 3;
  return model;
}

/// RoBERTa and ModernBERT.
inline ModelConfig small_encoder(ModelKind kind, Head head = Head::pretraining) {
  ModelConfig model = small_gpt();
  apply_preset(model, kind);
  if (kind == ModelKind::bert) model.token_types = 2;
  if (kind == ModelKind::roberta) model.token_types = 1;
  if (kind == ModelKind::modernbert) {
    model.attention_window = 3;
    model.window_pattern = "GL";
  }
  model.head = head;
  const bool classifies = head == Head::classification || head == Head::token_classification;
  model.num_labels = classifies ? 3 : 0;
  return model;
}

/// With another pooling than the default.
inline ModelConfig small_embeddings(ModelKind kind, Pooling pooling) {
  ModelConfig model = small_encoder(kind, Head::embedding);
  model.embedding_pooling = pooling;
  return model;
}

inline ModelConfig small_mean_classifier() {
  ModelConfig model = small_encoder(ModelKind::modernbert, Head::classification);
  model.classifier_pooling = Pooling::mean;
  return model;
}

/// T5 v1.0.
inline ModelConfig small_t5() {
  ModelConfig model = small_gpt();
  apply_preset(model, ModelKind::t5);
  model.num_decoder_layers = 3;
  model.head_dim = 5;
  model.relative_buckets = 8;
  model.relative_max_distance = 9;
  return model;
}

/// T5 v1.1.
inline ModelConfig small_gated_t5() {
  ModelConfig model = small_t5();
  model.gated_mlp = true;
  model.activation = Activation::gelu_tanh;
  model.tie_embeddings = model.scaled_logits = false;
  return model;
}

/// A tensor of a safetensors file.
struct FileTensor {
  Shape shape;
  std::vector<float> values;

  bool operator==(const FileTensor&) const = default;
};
using FileTensors = std::map<std::string, FileTensor>;

inline FileTensors read_tensors(const fs::path& path) {
  FileTensors tensors;
  const SafetensorsFile file(path);
  for (const auto& [name, entry] : file.entries()) {
    const auto bytes = file.bytes(entry);
    FileTensor& tensor = tensors[name];
    tensor.shape = entry.shape;
    tensor.values.resize(bytes.size() / sizeof(float));
    std::memcpy(tensor.values.data(), bytes.data(), bytes.size());
  }
  return tensors;
}

inline void write_tensors(const fs::path& path, const FileTensors& tensors) {
  fs::remove(path);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, DType::f32, tensor.shape});
  SafetensorsWriter writer(path, entries);
  for (auto [name, tensor] : tensors) {
    writer.append(Tensor(tensor.values.data(), tensor.shape, DType::f32, kCpu));
  }
  writer.finish();
}

/// A folder with checkpoints of small models, their exports and imports.
class HuggingFaceFolder : public testing::Test {
 protected:
  HuggingFaceFolder() { test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary); }

  std::string wordpiece() const { return "wordpiece:" + (folder_ / "vocab.txt"); }

  /// Saves a model whose weights all differ. Returns the run's folder.
  std::string save_model(const std::string& run, const ModelConfig& model,
                         const std::string& tokenizer = "",
                         const Json& extra = Json::object()) const {
    const auto world = make_self_communicator();
    ParameterStore store;
    Model made(model, store, *world);
    store.allocate(kCpu, DType::f32, StoreFor::inference);
    float next = 0.0f;
    for (const Parameter& parameter : store.parameters()) {
      for (float& value : parameter.value().span<float>()) value = std::sin(next += 0.37f);
    }
    save_store(run, model, store, &Parameter::value, *world, tokenizer, extra);
    return folder_ / run;
  }

  /// Saves the values or gradients of a model as the weights of a checkpoint. Collective.
  void save_store(const std::string& run, const ModelConfig& model, const ParameterStore& store,
                  const Tensor& (Parameter::*what)() const, Communicator& tp,
                  const std::string& tokenizer = "", const Json& extra = Json::object()) const {
    SaveRequest request;
    for (const Parameter& parameter : store.parameters()) {
      if (parameter.shard.replicated() && tp.rank() > 0) continue;
      request.tensors.push_back({parameter.name, kModelKind, parameter.global_shape,
                                 box_of(parameter.shard, parameter.global_shape),
                                 parameter.real_part((parameter.*what)())});
    }
    request.run_dir = folder_ / run;
    request.step = 3;
    request.model = architecture_json(model);
    request.extra = extra;
    request.attachments[kTokenizerAttachment] =
        model.has_images()
            ? tokenizer_attachment(IdTokenizer(1))
            : tokenizer_attachment(*make_tokenizer(tokenizer.empty() ? wordpiece() : tokenizer));
    save_checkpoint(request, tp);
  }

  /// Exports a run to folder `to`.
  fs::path export_run(const std::string& run, const std::string& to,
                      int64_t max_shard_bytes = 1'000'000'000) const {
    ExportOptions options;
    options.checkpoint = run;
    options.to = folder_ / to;
    options.max_shard_bytes = max_shard_bytes;
    export_model(options);
    return options.to;
  }

  /// Imports folder `from`, with the small vocabulary, as run `to`.
  ImportReport import_folder(const fs::path& from, const std::string& to) const {
    ImportOptions options;
    options.from = from;
    options.to = folder_ / to;
    const std::ifstream config(from / "config.json");
    std::stringstream text;
    text << config.rdbuf();
    const bool has_images = text.str().find("\"image_size\"") != std::string::npos;
    if (!has_images) options.tokenizer = wordpiece();
    return import_model(options);
  }

  /// Expects that importing a folder fails and leaves nothing behind.
  void expect_refused(const fs::path& from, std::initializer_list<const char*> facts) const {
    expect_error([&] { import_folder(from, "refused"); }, facts);
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
  }

  static Json config_of(const fs::path& folder) {
    return parse_json(read_file(folder / "config.json"), "config.json");
  }
  static void set_config(const fs::path& folder, const std::string& key, const Json& value) {
    Json config = config_of(folder);
    config[key] = value;
    write_file(folder / "config.json", config.dump());
  }

  test::TestFolder folder_;
};

/// All weights of a step, by name.
inline FileTensors weights_of(const fs::path& step) {
  Checkpoint checkpoint = Checkpoint::open(step);
  FileTensors weights;
  for (const auto& [name, stored] : checkpoint.manifest().tensors) {
    const OwnedTensor out(stored.shape, DType::f32);
    checkpoint.read(name, {}, out.tensor);
    const auto values = out.tensor.span<float>();
    weights[name] = {stored.shape, {values.begin(), values.end()}};
  }
  return weights;
}

}  // namespace tessera::testing_interop
