#include "launch/huggingface/import/saved_modules.h"

#include <algorithm>

#include "core/error.h"
#include "launch/config/validate_kind.h"
#include "launch/huggingface/import/match_tensors.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr const char* kWordEmbedding = "embedding.word";
constexpr const char* kOutputHead = "head.weight";

bool is_output_head(const TensorName& name) { return name.ours == kOutputHead; }

bool in_file(const ForeignWeights& weights, const std::string& theirs) {
  return weights.tensors().contains(kPeftPrefix + theirs);
}

bool ties_head(const ModelConfig& model) {
  return model.head == Head::pretraining && model.tie_embeddings;
}

/// Whether the file has the word embedding or the output head without an equal other one. PEFT
/// copies the modules that it trains, so those of a model that ties them become two.
bool unties_head(const ForeignWeights& weights, const ModelConfig& model) {
  if (!ties_head(model)) return false;
  const TiedNames names = tied_names(model_class_of(model));
  const bool has_head = in_file(weights, names.head), has_words = in_file(weights, names.words);
  if (!has_head || !has_words) return has_head || has_words;
  return !weights.same(kPeftPrefix + names.head, kPeftPrefix + names.words);
}

Head classifier_of(const std::string& task) {
  if (task == "TOKEN_CLS") return Head::token_classification;
  require(task == "SEQ_CLS",
          "the adapters have a classifier, so \"task_type\" in adapter_config.json must be "
          "\"SEQ_CLS\" or \"TOKEN_CLS\", but is {}",
          quote(task));
  return Head::classification;
}

/// The model without its head, such as BertModel, whose names have no "bert." before them.
ModelConfig without_head(const ModelConfig& model) {
  const ModelConfig defaults;
  ModelConfig headless = model;
  headless.head = Head::embedding;
  headless.num_labels = defaults.num_labels;
  headless.problem_type = defaults.problem_type;
  headless.classifier_pooling = defaults.classifier_pooling;
  headless.next_sentence = false;
  return headless;
}

bool has_adapter_of(const ForeignWeights& weights, const ModelConfig& model) {
  for (const TensorName& name : tensor_names(model)) {
    for (const TheirTensor& theirs : name.theirs) {
      if (in_file(weights, layer_name(theirs.name) + ".lora_A.weight")) return true;
    }
  }
  return false;
}

/// Whether a module is listed or within one that is. PEFT compares the ends of names.
bool is_listed(const std::string& module, const std::vector<std::string>& listed) {
  return std::ranges::any_of(listed, [&](const std::string& name) {
    return ("." + module + ".").find("." + name + ".") != std::string::npos;
  });
}

}  // namespace

ModelConfig with_saved_heads(const ModelConfig& base, const ForeignWeights& weights,
                             const std::string& task,
                             const std::optional<ClassifierSettings>& classifier) {
  ModelConfig model = base;
  if (architecture_of(base.kind).classification) {
    for (const char* name : {"classifier.weight", "classifier.out_proj.weight"}) {
      const auto found = weights.tensors().find(std::string(kPeftPrefix) + name);
      if (found == weights.tensors().end()) continue;
      const int64_t labels = found->second.shape()[0];
      if (classifies(base.head) && labels == base.num_labels) continue;
      if (!classifies(base.head)) model.head = classifier_of(task);
      model.num_labels = labels;
      model.problem_type = model.head == Head::classification && labels == 1
                               ? ProblemType::regression
                               : ProblemType::single_label_classification;
      model.next_sentence = false;
    }
    const bool has_text = !base.has_images();
    if (has_text && base.head != Head::embedding && has_adapter_of(weights, without_head(base))) {
      model = without_head(base);
    }
  }
  if (classifier) {
    require(classifies(model.head),
            "the adapters are those of a classifier, but neither their file nor the base model has "
            "one: choose the base model that they were trained on");
    model.problem_type = classifier->problem_type;
    model.classifier_pooling = classifier->pooling;
    require(classifier->labels.empty() || std::ssize(classifier->labels) == model.num_labels,
            "the adapters name {} labels, but the classifier has {}", classifier->labels.size(),
            model.num_labels);
  }
  if (unties_head(weights, model)) {
    model.tie_embeddings = false;
    require(std::ranges::any_of(tensor_names(model), is_output_head),
            "the adapters come with a word embedding or an output head, which PEFT trained apart "
            "from each other, but {} has one tensor for both",
            architecture_of(model.kind).display_name);
  }
  check_model_kind(model);
  return model;
}

SavedModules::SavedModules(const ForeignWeights& weights, const ModelConfig& model,
                           const std::vector<TensorName>& names,
                           const std::vector<std::string>& listed) {
  for (const TensorName& name : names) {
    if (!name.ours.empty()) add(weights, model, name, listed);
  }
  if (!ties_head(model)) return;
  const std::string head = tied_names(model_class_of(model)).head;
  if (in_file(weights, head)) copies_.push_back(kPeftPrefix + head);
}

void SavedModules::add(const ForeignWeights& weights, const ModelConfig& model,
                       const TensorName& name, const std::vector<std::string>& listed) {
  size_t found = 0;
  for (const auto& [theirs, shape] : name.theirs) {
    const std::string stored = kPeftPrefix + theirs, module = layer_name(theirs);
    const auto tensor = weights.tensors().find(stored);
    if (tensor == weights.tensors().end()) {
      require(!is_listed(module, listed), "\"modules_to_save\" has {}, but the file lacks {}",
              module, quote(stored));
      continue;
    }
    require(tensor->second.shape() == shape, "{}: {} has shape {}, but the base model needs {}",
            tensor->second.file->path(), quote(stored), to_string(tensor->second.shape()),
            to_string(shape));
    weights.require_float(stored);
    stored_[theirs] = stored;
    if (std::ranges::find(modules_, module) == modules_.end()) modules_.push_back(module);
    ++found;
  }
  if (found == 0) return;
  require(found == name.theirs.size(),
          "the file has {} and not all of the modules that are {} in Tessera: train all or none of "
          "them",
          quote(modules_.back()), name.ours);
  require(name.ours != kWordEmbedding || !architecture_of(model.kind).cross_attention,
          "the file has {}, a copy of the word embedding that the stacks of {} do not see: train "
          "adapters alone",
          quote(modules_.back()), architecture_of(model.kind).display_name);
  parameters_.push_back(name.ours);
}

std::string base_weight(const TensorName& name, const Checkpoint& base,
                        const std::vector<TensorName>& base_names) {
  if (base.has(name.ours) && base.tensor(name.ours).shape == name.shape) return name.ours;
  for (const TensorName& other : base_names) {
    const auto same = [](const TheirTensor& a, const TheirTensor& b) { return a.name == b.name; };
    if (other.shape == name.shape && std::ranges::equal(other.theirs, name.theirs, same)) {
      return other.ours;
    }
  }
  if (is_output_head(name)) return kWordEmbedding;  // tied until PEFT copied the modules
  fail(
      "the adapters' model has {}, which neither their file nor the base model {} has: import the "
      "base model with --architecture and a class that has it",
      quote(name.theirs.front().name), base.path().string());
}

}  // namespace tessera
