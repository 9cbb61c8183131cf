#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "launch/huggingface/classifier_metadata.h"
#include "launch/huggingface/import/foreign_weights.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// The base model with the heads that the file of its adapters has instead: a classifier, where the
/// base has none or one of other labels, and an output head apart from the word embedding. No head,
/// but embeddings, if the adapters are of a class without one, such as BertModel. `task` is
/// "task_type" in adapter_config.json, or empty; `classifier` is from the file's metadata. Throws
/// if Tessera has no such head.
ModelConfig with_saved_heads(const ModelConfig& base, const ForeignWeights& weights,
                             const std::string& task,
                             const std::optional<ClassifierSettings>& classifier);

/// The weights in the file of adapters that replace those of the base model (`modules_to_save`).
class SavedModules {
 public:
  /// `names` are the tensors of `model`, which is from with_saved_heads(), and must outlive this,
  /// like `weights`; `listed` are the names or last parts of the names of the modules. Throws if
  /// one that the model has is not in the file, has another shape, or shares its weight with other
  /// modules.
  SavedModules(const ForeignWeights& weights, const ModelConfig& model,
               const std::vector<TensorName>& names, const std::vector<std::string>& listed);

  /// Whether the file has all of a tensor of ours.
  bool has(const TensorName& name) const { return stored_.contains(name.theirs.front().name); }

  /// Maps names in TensorName::theirs to names in the file.
  const std::map<std::string, std::string>& stored() const { return stored_; }
  /// The modules, as transformers names them.
  const std::vector<std::string>& modules() const { return modules_; }
  /// Our names.
  const std::vector<std::string>& parameters() const { return parameters_; }
  /// Copies in the file that the model does not need.
  const std::vector<std::string>& copies() const { return copies_; }

 private:
  void add(const ForeignWeights& weights, const ModelConfig& model, const TensorName& name,
           const std::vector<std::string>& listed);

  std::map<std::string, std::string> stored_;
  std::vector<std::string> modules_, parameters_, copies_;
};

/// The base model's name of a tensor that is not in the file: the same, or that of the tensor with
/// the same names in transformers, such as the dense layer of another head. Throws if there is
/// none.
std::string base_weight(const TensorName& name, const Checkpoint& base,
                        const std::vector<TensorName>& base_names);

}  // namespace tessera
