#include "launch/huggingface/export/export_adapter.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/version.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/checkpoint/model_state.h"
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

constexpr const char* kPeftPrefix = "base_model.model.";

class AdapterTensors {
 public:
  AdapterTensors(Checkpoint& checkpoint, const ModelConfig& model)
      : checkpoint_(checkpoint), model_(model) {}

  void add(const TensorName& name) {
    if (name.ours.empty()) return;
    const std::string layer = layer_name(name.ours);
    const LowRank adapter = low_rank_of(model_, layer);
    const LowRankNames names = low_rank_names(layer);
    if (adapter.rank == 0 || !checkpoint_.has(names.b)) return add_trained(name, layer);
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

  std::vector<NamedTensor> tensors;
  std::vector<std::string> modules;
  std::vector<std::string> saved;  ///< modules that are written whole
  bool fan_in_fan_out = false;

 private:
  /// All of a layer, without an adapter, of which training changed a part: only what it changes has
  /// optimizer state.
  void add_trained(const TensorName& name, const std::string& layer) {
    const bool changed = has_optimizer_state(checkpoint_, layer + ".weight") ||
                         has_optimizer_state(checkpoint_, layer + ".bias") ||
                         has_optimizer_state(checkpoint_, name.ours);
    if (!changed) return;
    require(!model_.tie_embeddings || name.ours != "embedding.word",
            "{} was trained beside the adapters, and it is also the output head, which PEFT would "
            "leave as it was: export the model without --adapter, which merges them",
            name.ours);
    require(name.theirs.size() == 1 && !name.transposed && name.unused_rows == 0,
            "{} was trained beside the adapters, and PEFT has no place for it: export the model "
            "without --adapter, which merges them",
            name.ours);
    const std::string module = layer_name(name.theirs[0].name);
    if (std::ranges::find(saved, module) == saved.end()) saved.push_back(module);
    OwnedTensor values(name.theirs[0].shape, DType::f32);
    checkpoint_.read(name.ours, name.shape, {}, values.tensor.view(name.shape));
    tensors.push_back({kPeftPrefix + name.theirs[0].name, std::move(values)});
  }

  Tensor read(const std::string& name, const Shape& shape) {
    read_.emplace_back(shape, DType::f32);
    checkpoint_.read(name, shape, {}, read_.back().tensor);
    return read_.back().tensor;
  }

  Checkpoint& checkpoint_;
  const ModelConfig& model_;
  std::vector<OwnedTensor> read_;
};

Json adapter_config(const ModelConfig& model, const AdapterTensors& adapter) {
  Json config = {{"peft_type", "LORA"},
                 {"base_model_name_or_path", nullptr},
                 {"r", model.lora_rank},
                 {"lora_alpha", model.lora_alpha},
                 {"lora_dropout", 0.0},
                 {"bias", "none"},
                 {"fan_in_fan_out", adapter.fan_in_fan_out},
                 {"target_modules", adapter.modules},
                 {"inference_mode", true}};
  config["task_type"] = traits_of(model).causal ? Json("CAUSAL_LM") : Json(nullptr);
  config["modules_to_save"] = adapter.saved.empty() ? Json(nullptr) : Json(adapter.saved);
  return config;
}

}  // namespace

std::vector<std::string> export_adapter(Checkpoint& checkpoint, const ModelConfig& model,
                                        int64_t padding_token, DType precision,
                                        const std::filesystem::path& folder) {
  require(model.lora_rank > 0,
          "the model has no low-rank adapters (model.lora_rank is 0): export it without --adapter");
  AdapterTensors adapter(checkpoint, model);
  for (const TensorName& name : tensor_names(model, padding_token)) adapter.add(name);

  std::vector<SafetensorsEntry> entries;
  for (const NamedTensor& tensor : adapter.tensors) {
    entries.push_back({tensor.name, precision, tensor.values.tensor.shape()});
  }
  const std::string weights = "adapter_model.safetensors", settings = "adapter_config.json";
  SafetensorsWriter writer(folder / weights, std::move(entries),
                           {{"format", "pt"}, {kExportMark, kVersion}});
  for (const NamedTensor& tensor : adapter.tensors) {
    const OwnedTensor written(tensor.values.tensor.shape(), precision);
    copy(tensor.values.tensor, written.tensor);
    writer.append(written.tensor);
  }
  writer.finish();
  OutputFile file(folder / settings);
  file.write(adapter_config(model, adapter).dump(2) + "\n");
  file.sync_and_close();
  return {settings, weights};
}

}  // namespace tessera
