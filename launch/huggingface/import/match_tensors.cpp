#include "launch/huggingface/import/match_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "core/error.h"
#include "launch/support/text/json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr const char* kT5Words = "shared.weight";

/// The stored head of a model whose head is its word embedding, and the embedding; the head's bias
/// and its copy, if it has one.
struct TiedHead {
  const char* head;
  const char* words;
  const char* bias = nullptr;
  const char* bias_copy = nullptr;
};

struct BaseNames {
  std::string_view prefix;  ///< precedes the names of the base model's tensors
  TiedHead tied;
};

BaseNames base_names(ModelClass model_class) {
  switch (kind_of(model_class)) {
    case ModelKind::gpt2:
      return {"transformer.", {"lm_head.weight", "transformer.wte.weight"}};
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
    case ModelKind::qwen3:
      return {"model.", {"lm_head.weight", "model.embed_tokens.weight"}};
    case ModelKind::bert:
      return {"bert.",
              {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight",
               "cls.predictions.bias", "cls.predictions.decoder.bias"}};
    case ModelKind::roberta:
      return {"roberta.",
              {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight",
               "lm_head.bias", "lm_head.decoder.bias"}};
    case ModelKind::modernbert:
      return {"model.", {"decoder.weight", "model.embeddings.tok_embeddings.weight"}};
    case ModelKind::t5:
      return {"", {"lm_head.weight", kT5Words}};
    case ModelKind::vit:
      return {"vit.", {"", ""}};
    case ModelKind::encoder_decoder:
      break;
  }
  fail("{} has no tensors in transformers", to_string(model_class));
}

/// Normalizes a tensor's name: no prefix of the base model, and current names of norms.
std::string plain_name(std::string name, ModelClass model_class) {
  const std::string_view prefix = base_names(model_class).prefix;
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
  const auto rename = [&](std::string_view old, std::string_view now) {
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), now);
  };
  rename("LayerNorm.gamma", "LayerNorm.weight");
  rename("LayerNorm.beta", "LayerNorm.bias");
  return name;
}

/// Whether a tensor is no weight of the model: masks and position ids that earlier versions saved,
/// and the bias of T5's cross-attention, which published models have and nothing uses.
bool is_buffer(std::string_view plain) {
  return plain.ends_with(".attn.bias") || plain.ends_with(".attn.masked_bias") ||
         plain.ends_with(".self_attn.rotary_emb.inv_freq") || plain == "rotary_emb.inv_freq" ||
         plain == "embeddings.position_ids" || plain == "embeddings.token_type_ids" ||
         plain == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

/// Whether a tensor belongs to a head of another class of this kind of encoder.
bool is_of_a_head(std::string_view plain) {
  constexpr std::array<std::string_view, 6> kHeads = {"cls.",     "pooler.", "classifier.",
                                                      "lm_head.", "head.",   "decoder."};
  return std::any_of(kHeads.begin(), kHeads.end(),
                     [&](std::string_view head) { return plain.starts_with(head); });
}

/// The first names, one per line.
std::string lines_of(const std::vector<std::string>& lines) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), kMost); ++i) text += "\n  " + lines[i];
  if (lines.size() > kMost) text += fmt::format("\n  and {} more", lines.size() - kMost);
  return text;
}

/// The tensors of a folder by normalized name; each is taken once.
class UnmatchedTensors {
 public:
  UnmatchedTensors(const ForeignWeights& weights, ModelClass model_class)
      : weights_(weights), model_class_(model_class) {
    for (const auto& [name, place] : weights.tensors()) {
      const auto [known, is_new] = stored_.emplace(plain_name(name, model_class), name);
      require(is_new, "{}: {} and {} are names of the same tensor", place.file->path(),
              quote(known->second), quote(name));
    }
  }

  /// The name in the files, or nullopt.
  std::optional<std::string> find(const std::string& theirs) const {
    const auto found = stored_.find(plain_name(theirs, model_class_));
    return found == stored_.end() ? std::nullopt : std::optional(found->second);
  }

  void take(const std::string& theirs) { taken_.insert(plain_name(theirs, model_class_)); }

  /// Requires that `copy` is missing or equal to `original`, and marks it as taken.
  void take_copy(const std::string& copy, const std::string& original, const char* why) {
    const auto there = find(copy), of = find(original);
    if (!there || !of) return;
    require(weights_.same(*there, *of), "the tensors {} and {} differ, but {}", quote(*there),
            quote(*of), why);
    take(copy);
  }

  /// Calls body(plain name, name in the files) for each untaken tensor.
  template <typename Body>
  void for_each_left(Body&& body) const {
    for (const auto& [plain, name] : stored_) {
      if (taken_.count(plain) == 0) body(plain, name);
    }
  }

 private:
  const ForeignWeights& weights_;
  ModelClass model_class_;
  std::map<std::string, std::string> stored_;  // from plain names
  std::set<std::string> taken_;
};

/// `tied`: whether config.json says so.
void take_tied_heads(UnmatchedTensors& shelf, ModelClass model_class, bool tied) {
  if (head_of(model_class) != Head::pretraining) return;
  const TiedHead names = base_names(model_class).tied;
  require(
      tied || shelf.find(names.head).has_value(),
      "\"tie_word_embeddings\" is false, but the output head of a {} is the embedding of words, "
      "and there is no tensor \"{}\" to compare it with",
      to_string(model_class), names.head);
  shelf.take_copy(names.head, names.words, "the output head is the embedding of words");
  if (names.bias == nullptr) return;
  shelf.take_copy(names.bias_copy, names.bias, "both are the bias of the same head");
}

/// T5's stacks share one embedding, of which files may have copies.
void take_t5_embeddings(UnmatchedTensors& shelf) {
  for (const char* copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    shelf.take_copy(copy, kT5Words, "both stacks of a T5 have one embedding of words");
  }
}

/// Finds and takes the model's tensors.
void take_all(UnmatchedTensors& shelf, const ForeignWeights& weights,
              const std::vector<TensorName>& names, const TiedHead& head, MatchedTensors& matched) {
  std::vector<std::string> missing, other_shapes;
  for (const TensorName& name : names) {
    for (const auto& [theirs, their_shape] : name.theirs) {
      std::optional<std::string> stored = shelf.find(theirs);
      shelf.take(theirs);
      if (!stored && head.bias != nullptr && theirs == head.bias) {
        stored = shelf.find(head.bias_copy);
        shelf.take(head.bias_copy);
      }
      if (!stored) {
        missing.push_back(theirs);
        continue;
      }
      const Shape& shape = weights.tensors().at(*stored).shape();
      if (shape != their_shape) {
        other_shapes.push_back(fmt::format("{} is {}, but must be {}", quote(*stored),
                                           to_string(shape), to_string(their_shape)));
      }
      weights.require_float(*stored);
      matched.stored.emplace(theirs, *stored);
    }
  }
  require(missing.empty(), "{} of the model's tensors {} missing from the files:{}", missing.size(),
          missing.size() == 1 ? "is" : "are", lines_of(missing));
  require(other_shapes.empty(), "the files' tensors are not those of the model in config.json:{}",
          lines_of(other_shapes));
}

}  // namespace

TiedNames tied_names(ModelClass model_class) {
  const TiedHead names = base_names(model_class).tied;
  return {names.head, names.words};
}

bool has_own_head(const ForeignWeights& weights, ModelClass model_class) {
  const TiedHead names = base_names(model_class).tied;
  const auto& tensors = weights.tensors();
  return tensors.count(names.head) > 0 && tensors.count(names.words) > 0 &&
         !weights.same(names.head, names.words);
}

MatchedTensors match_tensors(const ForeignWeights& weights, const std::vector<TensorName>& names,
                             ModelClass model_class, bool tied) {
  UnmatchedTensors shelf(weights, model_class);
  MatchedTensors matched;
  take_all(shelf, weights, names, base_names(model_class).tied, matched);
  const bool is_untied =
      std::ranges::any_of(names, [](const TensorName& name) { return name.ours == "head.weight"; });
  if (!is_untied) take_tied_heads(shelf, model_class, tied);
  if (model_class == ModelClass::t5_conditional_generation) take_t5_embeddings(shelf);
  std::vector<std::string> unexpected;
  shelf.for_each_left([&](const std::string& plain, const std::string& name) {
    if (is_buffer(plain)) return;
    const bool of_a_head =
        architecture_of(kind_of(model_class)).classification && is_of_a_head(plain);
    (of_a_head ? matched.left_out : unexpected).push_back(of_a_head ? name : quote(name));
  });
  require(unexpected.empty(), "{} of the files' tensors {} not in the model:{}", unexpected.size(),
          unexpected.size() == 1 ? "is" : "are", lines_of(unexpected));
  return matched;
}

}  // namespace tessera
