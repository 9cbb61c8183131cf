#include "launch/huggingface/export/export_adapter.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/version.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/label_names.h"
#include "launch/huggingface/classifier_metadata.h"
#include "launch/huggingface/export/earlier_export.h"
#include "launch/huggingface/export/tensor_parts.h"
#include "launch/huggingface/tensor_names.h"
#include "launch/support/files/output_file.h"
#include "models/architecture.h"
#include "models/layers/low_rank.h"

namespace tessera {
namespace {

struct NamedTensor {
  std::string name;
  OwnedTensor values;
};

class AdapterTensors {
 public:
  AdapterTensors(Checkpoint& checkpoint, const ModelConfig& model,
                 const std::vector<TensorName>& names)
      : checkpoint_(checkpoint),
        model_(model),
        trained_(read_run_state(checkpoint.manifest()).trained_beside_adapters),
        reader_(checkpoint, model) {
    for (const TensorName& name : names) {
      if (!trained_.contains(name.ours)) continue;
      for (const TheirTensor& theirs : name.theirs) changed_.insert(module_of(theirs.name));
    }
    for (const TensorName& name : names) add(name);
  }

  std::vector<NamedTensor> tensors;
  std::vector<std::string> modules;
  std::vector<std::string> saved;  ///< modules that are written whole (`modules_to_save`)
  bool fan_in_fan_out = false;

 private:
  /// The module of theirs that PEFT would save: classifiers as a whole, as it does by itself.
  static std::string module_of(const std::string& theirs) {
    return theirs.starts_with("classifier.") ? "classifier" : layer_name(theirs);
  }

  void add(const TensorName& name) {
    if (name.ours.empty()) return;
    const std::string layer = layer_name(name.ours);
    const LowRank adapter = low_rank_of(model_, layer);
    const LowRankNames names = low_rank_names(layer);
    if (adapter.rank == 0 || !checkpoint_.has(names.b)) return add_trained(name);
    require(!trained_.contains(name.ours),
            "{} was trained beside its layer's adapter, and PEFT has no place for both: export the "
            "model without --adapter, which merges them",
            name.ours);
    if (!name.ours.ends_with(".weight")) return;
    fan_in_fan_out |= name.transposed;
    const Tensor a = read(names.a, {adapter.rank, name.shape[-1]});
    TensorName of_b = name;
    of_b.shape.set(-1, adapter.rank);
    for (TheirTensor& part : of_b.theirs) {
      // Theirs is (out, in), or (in, out) if it is transposed; their B is (out, rank) always.
      part.shape = {part.shape[name.transposed ? 1 : 0], adapter.rank};
    }
    const Tensor b = read(names.b, of_b.shape);
    for (size_t part = 0; part < of_b.theirs.size(); ++part) {
      const std::string module = layer_name(of_b.theirs[part].name);
      modules.push_back(module);
      OwnedTensor its_a(a.shape(), DType::f32), its_b(of_b.theirs[part].shape, DType::f32);
      copy(a, its_a.tensor);
      copy_part(of_b, part, b, its_b.tensor);
      tensors.push_back({kPeftPrefix + module + ".lora_A.weight", std::move(its_a)});
      tensors.push_back({kPeftPrefix + module + ".lora_B.weight", std::move(its_b)});
    }
  }

  /// Adds the tensors of a module without an adapter, if training changed a part of it.
  void add_trained(const TensorName& name) {
    const bool changed = std::ranges::any_of(name.theirs, [&](const TheirTensor& theirs) {
      return changed_.contains(module_of(theirs.name));
    });
    if (!changed) return;
    const bool ties = ties_embedding() && name.ours == "embedding.word";
    require(is_module(name) && (!ties || traits_of(model_).causal),
            "{} was trained beside the adapters, and no module in transformers, as PEFT saves "
            "them, is this weight alone: export the model without --adapter, which merges them",
            name.ours);
    for (size_t part = 0; part < name.theirs.size(); ++part) {
      save(name.theirs[part].name, reader_.read(name, part));
    }
    // PEFT copies modules, also those that share a weight.
    if (ties) save("lm_head.weight", reader_.read(name, 0));
  }

  bool ties_embedding() const { return model_.tie_embeddings && model_.head == Head::pretraining; }

  /// Whether theirs are the weights or biases of modules that have nothing else. The stacks of an
  /// encoder–decoder have modules of their own that share the embedding of words, and the bias of
  /// an encoder's head is of a module with a tied weight or with other modules.
  bool is_module(const TensorName& name) const {
    if (name.ours == "embedding.word" && architecture_of(model_.kind).cross_attention) return false;
    if (name.ours == "head.bias") return false;
    return std::ranges::all_of(name.theirs, [](const TheirTensor& theirs) {
      return theirs.name.ends_with(".weight") || theirs.name.ends_with(".bias");
    });
  }

  void save(const std::string& theirs, OwnedTensor values) {
    const std::string module = module_of(theirs);
    if (std::ranges::find(saved, module) == saved.end()) saved.push_back(module);
    tensors.push_back({kPeftPrefix + theirs, std::move(values)});
  }

  Tensor read(const std::string& name, const Shape& shape) {
    read_.emplace_back(shape, DType::f32);
    checkpoint_.read(name, shape, {}, read_.back().tensor);
    return read_.back().tensor;
  }

  Checkpoint& checkpoint_;
  const ModelConfig& model_;
  const std::set<std::string> trained_;  // parameters of ours
  std::set<std::string> changed_;        // modules of theirs
  const TensorPartReader reader_;
  std::vector<OwnedTensor> read_;
};

/// The metadata of the file: its format, Tessera's mark, and what adapter_config.json cannot say.
std::map<std::string, std::string> adapter_metadata(const Checkpoint& checkpoint,
                                                    const ModelConfig& model) {
  std::map<std::string, std::string> metadata =
      classifier_metadata(model, names_of_labels(read_run_state(checkpoint.manifest()).labels));
  metadata.insert({{"format", "pt"}, {kExportMark, kVersion}});
  return metadata;
}

/// PEFT expects a classifier in the file of adapters that classify.
Json task_type(const ModelConfig& model, const std::vector<std::string>& saved) {
  if (traits_of(model).causal) return "CAUSAL_LM";
  if (model.head == Head::embedding) return "FEATURE_EXTRACTION";
  if (std::ranges::find(saved, "classifier") == saved.end()) return nullptr;
  return model.head == Head::token_classification ? "TOKEN_CLS" : "SEQ_CLS";
}

Json adapter_config(const ModelConfig& model, const AdapterTensors& adapter,
                    const std::optional<std::string>& base) {
  Json config = {{"peft_type", "LORA"},
                 {"base_model_name_or_path", base ? Json(*base) : Json(nullptr)},
                 {"r", model.lora_rank},
                 {"lora_alpha", model.lora_alpha},
                 {"lora_dropout", model.lora_dropout},
                 {"bias", "none"},
                 {"fan_in_fan_out", adapter.fan_in_fan_out},
                 {"target_modules", adapter.modules},
                 {"inference_mode", true}};
  config["task_type"] = task_type(model, adapter.saved);
  config["modules_to_save"] = adapter.saved.empty() ? Json(nullptr) : Json(adapter.saved);
  return config;
}

}  // namespace

std::vector<std::string> export_adapter(Checkpoint& checkpoint, const ModelConfig& model,
                                        int64_t padding_token, DType precision,
                                        const std::optional<std::string>& base,
                                        const std::filesystem::path& folder) {
  require(model.lora_rank > 0,
          "the model has no low-rank adapters (model.lora_rank is 0): export it without --adapter");
  const AdapterTensors adapter(checkpoint, model, tensor_names(model, padding_token));

  std::vector<SafetensorsEntry> entries;
  for (const NamedTensor& tensor : adapter.tensors) {
    entries.push_back({tensor.name, precision, tensor.values.tensor.shape()});
  }
  const std::string weights = "adapter_model.safetensors", settings = "adapter_config.json";
  SafetensorsWriter writer(folder / weights, std::move(entries),
                           adapter_metadata(checkpoint, model));
  for (const NamedTensor& tensor : adapter.tensors) {
    const OwnedTensor written(tensor.values.tensor.shape(), precision);
    copy(tensor.values.tensor, written.tensor);
    writer.append(written.tensor);
  }
  writer.finish();
  OutputFile file(folder / settings);
  file.write(adapter_config(model, adapter, base).dump(2) + "\n");
  file.sync_and_close();
  return {settings, weights};
}

}  // namespace tessera
