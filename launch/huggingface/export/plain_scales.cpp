#include "launch/huggingface/export/plain_scales.h"

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The model whose multipliers a class of `transformers` has.
ModelConfig plain(ModelConfig model) {
  model.mup_base_hidden_size = model.mup_base_head_dim = 0;
  model.attention_scale = preset(model.kind).attention_scale;
  return model;
}

bool is_weight_or_bias_of(const std::string& name, const std::string& layer) {
  return name.ends_with(layer + ".weight") || name.ends_with(layer + ".bias");
}

}  // namespace

PlainScales::PlainScales(const ModelConfig& model)
    : model_(model),
      attention_(static_cast<float>(model.resolved_attention_scale() /
                                    plain(model).resolved_attention_scale())),
      logits_(static_cast<float>(model.logit_scale() / plain(model).logit_scale())) {}

void PlainScales::apply(const std::string& name, const Tensor& tensor) const {
  if (!model_.has_mup()) return;
  if (scales_logits(name)) {
    scale(tensor, logits_, tensor);
  } else if (is_weight_or_bias_of(name, ".cross_attention.query") ||
             name.ends_with(".attention.query_norm.weight")) {
    scale(tensor, attention_, tensor);
  } else if (!model_.qk_norm && is_weight_or_bias_of(name, ".attention.qkv")) {
    scale_queries(tensor);
  }
}

bool PlainScales::scales_logits(const std::string& name) const {
  if (model_.head == Head::embedding) return false;
  if (model_.head != Head::pretraining) return name == "classifier.weight";
  if (name == "next_sentence.weight") return true;
  const Architecture& architecture = architecture_of(model_.kind);
  if (architecture.head_transform) return is_weight_or_bias_of(name, "head.norm");
  if (!model_.tie_embeddings) return name == "head.weight";
  const std::string norm = architecture.cross_attention ? "decoder.final_norm" : "final_norm";
  return name == norm + ".weight" || name == norm + ".bias";
}

/// The queries, keys and values of each group follow one another; without grouped queries, all
/// queries come first.
void PlainScales::scale_queries(const Tensor& joint) const {
  const bool is_grouped = model_.resolved_kv_heads() != model_.num_heads;
  const int64_t groups = is_grouped ? model_.resolved_kv_heads() : 1;
  const int64_t heads = is_grouped ? model_.num_heads / groups : 1;
  const int64_t part = div_exact(joint.numel(), groups * (heads + 2), "queries, keys and values",
                                 "the number of their parts");
  const Tensor flat = joint.view({joint.numel()});
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * (heads + 2) * part;
    const Tensor queries = flat.slice(first, first + heads * part);
    scale(queries, attention_, queries);
  }
}

}  // namespace tessera
