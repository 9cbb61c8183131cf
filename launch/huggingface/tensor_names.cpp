#include "launch/huggingface/tensor_names.h"

#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// Collects the tensors of a model.
class Names {
 public:
  explicit Names(const ModelConfig& model) : model_(model) {}

  void table(const std::string& ours, int64_t rows, const std::string& theirs) {
    add(ours, {rows, model_.hidden_size}, theirs);
  }

  void norm(const std::string& ours, const std::string& theirs) {
    add(ours + ".weight", {model_.hidden_size}, theirs + ".weight");
    bias(ours, model_.hidden_size, theirs);
  }

  /// A linear layer of BERT, (out, in) as in Tessera.
  void linear(const std::string& ours, int64_t out, int64_t in, const std::string& theirs) {
    add(ours + ".weight", {out, in}, theirs + ".weight");
    bias(ours, out, theirs);
  }

  void bias(const std::string& ours, int64_t size, const std::string& theirs) {
    add(bias_name(ours), {size}, theirs + ".bias");
  }

  /// A Conv1D layer of GPT-2.
  void conv1d(const std::string& ours, int64_t out, int64_t in, const std::string& theirs) {
    add_transposed(ours + ".weight", {out, in}, theirs + ".weight", {in, out});
    bias(ours, out, theirs);
  }

  /// GPT-2's queries, keys and values: columns of one matrix.
  void query_key_value_conv1d(const std::string& ours, const std::string& theirs) {
    const int64_t width = model_.hidden_size;
    add_transposed(ours + ".weight", {3, width, width}, theirs + ".weight", {width, 3 * width});
    names.push_back({bias_name(ours), {3, width}, {{theirs + ".bias", {3 * width}}}});
  }

  /// Linear layers of theirs, with `rows` outputs each, that are one of ours of shape `shape`, with
  /// `in` inputs: queries, keys and values, or gate and up.
  void joint(const std::string& ours, const Shape& shape, int64_t in,
             const std::vector<std::pair<std::string, int64_t>>& parts, int64_t groups,
             const std::optional<std::string>& bias) {
    std::vector<TheirTensor> weights, biases;
    for (const auto& [name, rows] : parts) {
      weights.push_back({name + ".weight", {rows, in}});
      biases.push_back({name + ".bias", {rows}});
    }
    Shape weight = shape;
    weight.push_back(in);
    names.push_back({ours + ".weight", weight, weights, groups});
    if (bias) names.push_back({*bias, shape, biases, groups});
  }

  /// Three layers: `parts` are their names.
  void query_key_value(const std::string& ours, const std::array<std::string, 3>& parts,
                       const std::optional<std::string>& bias) {
    const int64_t d = model_.resolved_head_dim(), queries = model_.num_heads * d;
    const int64_t groups = model_.resolved_kv_heads(), keys = groups * d;
    const bool grouped = groups != model_.num_heads || model_.qk_norm;
    const Shape shape = grouped ? Shape{queries + 2 * keys} : Shape{3, queries};
    joint(ours, shape, model_.hidden_size,
          {{parts[0], queries}, {parts[1], keys}, {parts[2], keys}}, grouped ? groups : 1, bias);
  }

  /// The positions' table of RoBERTa.
  void table_after(int64_t unused_rows, const std::string& ours, int64_t rows,
                   const std::string& theirs) {
    const int64_t width = model_.hidden_size;
    TensorName& name = names.emplace_back(
        TensorName{ours, {rows, width}, {{theirs, {unused_rows + rows, width}}}});
    name.unused_rows = unused_rows;
  }

  /// A tensor with the same shape on both sides; all zeros if `ours` is empty.
  void add(const std::string& ours, const Shape& shape, const std::string& theirs) {
    names.push_back({ours, shape, {{theirs, shape}}});
  }

  std::string bias_name(const std::string& ours) const {
    return model_.linear_bias() ? ours + ".bias" : "";
  }

  std::vector<TensorName> names;

 private:
  void add_transposed(const std::string& ours, const Shape& shape, const std::string& theirs,
                      const Shape& their_shape) {
    TensorName& name = names.emplace_back(TensorName{ours, shape, {{theirs, their_shape}}});
    name.transposed = true;
  }

  const ModelConfig& model_;
};

std::vector<TensorName> gpt2_names(const ModelConfig& model) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  Names names(model);
  names.table("embedding.word", model.vocab_size, "transformer.wte.weight");
  names.table("embedding.position", model.seq_length, "transformer.wpe.weight");
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i);
    const std::string theirs = fmt::format("transformer.h.{}.", i);
    names.norm(ours + "attention_norm", theirs + "ln_1");
    names.query_key_value_conv1d(ours + "attention.qkv", theirs + "attn.c_attn");
    names.conv1d(ours + "attention.output", width, width, theirs + "attn.c_proj");
    names.norm(ours + "mlp_norm", theirs + "ln_2");
    names.conv1d(ours + "mlp.up", mlp, width, theirs + "mlp.c_fc");
    names.conv1d(ours + "mlp.down", width, mlp, theirs + "mlp.c_proj");
  }
  names.norm("final_norm", "transformer.ln_f");
  return std::move(names.names);
}

void add_bert_heads(Names& names, const ModelConfig& model) {
  const int64_t width = model.hidden_size;
  const bool classifies = model.head == Head::classification;
  if (model.head == Head::pretraining) {
    names.linear("head.transform", width, width, "cls.predictions.transform.dense");
    names.norm("head.norm", "cls.predictions.transform.LayerNorm");
    names.bias("head", model.vocab_size, "cls.predictions");
  }
  if (model.head == Head::embedding) return;
  if (classifies || model.next_sentence) names.linear("pooler", width, width, "bert.pooler.dense");
  if (model.next_sentence) names.linear("next_sentence", 2, width, "cls.seq_relationship");
  if (model.head != Head::pretraining) {
    names.linear("classifier", model.num_labels, width, "classifier");
  }
}

void add_roberta_heads(Names& names, const ModelConfig& model) {
  const int64_t width = model.hidden_size;
  if (model.head == Head::classification) {
    names.linear("pooler", width, width, "classifier.dense");
    names.linear("classifier", model.num_labels, width, "classifier.out_proj");
  } else if (model.head == Head::token_classification) {
    names.linear("classifier", model.num_labels, width, "classifier");
  } else if (model.head == Head::pretraining) {
    names.linear("head.transform", width, width, "lm_head.dense");
    names.norm("head.norm", "lm_head.layer_norm");
    names.bias("head", model.vocab_size, "lm_head");
  }
}

/// Prefix of the names of the model without its head: nothing in a class without one.
std::string base_of(const ModelConfig& model, const char* base) {
  return model.head == Head::embedding ? "" : base;
}

/// BERT and RoBERTa.
std::vector<TensorName> bert_names(const ModelConfig& model, int64_t padding_token) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  const bool is_roberta = model.kind == ModelKind::roberta;
  const std::string base = base_of(model, is_roberta ? "roberta." : "bert.");
  const std::string embeddings = base + "embeddings.";
  Names names(model);
  names.table("embedding.word", model.vocab_size, embeddings + "word_embeddings.weight");
  names.table_after(is_roberta ? unused_positions(padding_token) : 0, "embedding.position",
                    model.seq_length, embeddings + "position_embeddings.weight");
  const std::string types = embeddings + "token_type_embeddings.weight";
  const bool has_types = model.token_types > 0;
  names.table(has_types ? "embedding.token_type" : "",
              has_types ? model.token_types : kZeroTokenTypes, types);
  names.norm("embedding.norm", embeddings + "LayerNorm");
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i);
    const std::string theirs = fmt::format("{}encoder.layer.{}.", base, i);
    const std::string qkv = ours + "attention.qkv", self = theirs + "attention.self.";
    names.query_key_value(qkv, {self + "query", self + "key", self + "value"},
                          names.bias_name(qkv));
    names.linear(ours + "attention.output", width, width, theirs + "attention.output.dense");
    names.norm(ours + "attention_norm", theirs + "attention.output.LayerNorm");
    names.linear(ours + "mlp.up", mlp, width, theirs + "intermediate.dense");
    names.linear(ours + "mlp.down", width, mlp, theirs + "output.dense");
    names.norm(ours + "mlp_norm", theirs + "output.LayerNorm");
  }
  is_roberta ? add_roberta_heads(names, model) : add_bert_heads(names, model);
  return std::move(names.names);
}

/// Layers have no biases on either side, but the last one of each head has.
std::vector<TensorName> modernbert_names(const ModelConfig& model) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  Names names(model);
  const std::string base = base_of(model, "model.");
  names.table("embedding.word", model.vocab_size, base + "embeddings.tok_embeddings.weight");
  names.add("embedding.norm.weight", {width}, base + "embeddings.norm.weight");
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i);
    const std::string theirs = fmt::format("{}layers.{}.", base, i);
    if (i > 0) {
      names.add(ours + "attention_norm.weight", {width}, theirs + "attn_norm.weight");
    }
    names.joint(ours + "attention.qkv", {3, width}, width, {{theirs + "attn.Wqkv", 3 * width}}, 1,
                std::nullopt);
    names.add(ours + "attention.output.weight", {width, width}, theirs + "attn.Wo.weight");
    names.add(ours + "mlp_norm.weight", {width}, theirs + "mlp_norm.weight");
    names.joint(ours + "mlp.gate_up", {2, mlp}, width, {{theirs + "mlp.Wi", 2 * mlp}}, 1,
                std::nullopt);
    names.add(ours + "mlp.down.weight", {width, mlp}, theirs + "mlp.Wo.weight");
  }
  names.add("final_norm.weight", {width}, base + "final_norm.weight");
  if (model.head == Head::embedding) return std::move(names.names);
  const bool classifies = model.head != Head::pretraining;
  names.add(classifies ? "pooler.weight" : "head.transform.weight", {width, width},
            "head.dense.weight");
  names.add(classifies ? "pooler.norm.weight" : "head.norm.weight", {width}, "head.norm.weight");
  if (classifies) {
    names.add("classifier.weight", {model.num_labels, width}, "classifier.weight");
    names.add("classifier.bias", {model.num_labels}, "classifier.bias");
  } else {
    names.add("head.bias", {model.vocab_size}, "decoder.bias");
  }
  return std::move(names.names);
}

/// The names of Llama, Mistral, Qwen2 and Qwen3. Layers without a bias have none there either.
std::vector<TensorName> llama_names(const ModelConfig& model) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  Names names(model);
  names.table("embedding.word", model.vocab_size, "model.embed_tokens.weight");
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i);
    const std::string theirs = fmt::format("model.layers.{}.", i);
    const std::string qkv = ours + "attention.qkv", self = theirs + "self_attn.";
    names.add(ours + "attention_norm.weight", {width}, theirs + "input_layernorm.weight");
    names.query_key_value(qkv, {self + "q_proj", self + "k_proj", self + "v_proj"},
                          model.qkv_bias() ? std::optional(qkv + ".bias") : std::nullopt);
    if (model.qk_norm) {
      const int64_t d = model.resolved_head_dim();
      names.add(ours + "attention.query_norm.weight", {d}, self + "q_norm.weight");
      names.add(ours + "attention.key_norm.weight", {d}, self + "k_norm.weight");
    }
    names.add(ours + "attention.output.weight", {width, model.attention_size()},
              self + "o_proj.weight");
    if (model.output_bias()) {
      names.add(ours + "attention.output.bias", {width}, self + "o_proj.bias");
    }
    names.add(ours + "mlp_norm.weight", {width}, theirs + "post_attention_layernorm.weight");
    const std::string gate_up = ours + "mlp.gate_up";
    names.joint(gate_up, {2, mlp}, width,
                {{theirs + "mlp.gate_proj", mlp}, {theirs + "mlp.up_proj", mlp}}, 1,
                model.linear_bias() ? std::optional(gate_up + ".bias") : std::nullopt);
    names.add(ours + "mlp.down.weight", {width, mlp}, theirs + "mlp.down_proj.weight");
    if (model.linear_bias())
      names.add(ours + "mlp.down.bias", {width}, theirs + "mlp.down_proj.bias");
  }
  names.add("final_norm.weight", {width}, "model.norm.weight");
  if (!model.tie_embeddings) names.table("head.weight", model.vocab_size, "lm_head.weight");
  return std::move(names.names);
}

/// The blocks of one of T5's stacks, "encoder" or "decoder", and what is around them.
void add_t5_stack(Names& names, const ModelConfig& model, const std::string& stack,
                  int64_t layers) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  const int64_t heads = model.attention_size();
  const bool is_decoder = stack == "decoder";
  names.add(stack + ".position_bias.weight", {model.relative_buckets, model.num_heads},
            stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = fmt::format("{}.blocks.{}.", stack, i);
    const std::string theirs = fmt::format("{}.block.{}.layer.", stack, i);
    const std::string self = theirs + "0.SelfAttention.";
    names.add(ours + "attention_norm.weight", {width}, theirs + "0.layer_norm.weight");
    names.query_key_value(ours + "attention.qkv", {self + "q", self + "k", self + "v"},
                          std::nullopt);
    names.add(ours + "attention.output.weight", {width, heads}, self + "o.weight");
    if (is_decoder) {
      const std::string cross = theirs + "1.EncDecAttention.";
      names.add(ours + "cross_attention_norm.weight", {width}, theirs + "1.layer_norm.weight");
      names.add(ours + "cross_attention.query.weight", {heads, width}, cross + "q.weight");
      names.joint(ours + "cross_attention.key_value", {2, heads}, width,
                  {{cross + "k", heads}, {cross + "v", heads}}, 1, std::nullopt);
      names.add(ours + "cross_attention.output.weight", {width, heads}, cross + "o.weight");
    }
    const std::string last = theirs + (is_decoder ? "2." : "1.");
    const std::string dense = last + "DenseReluDense.";
    names.add(ours + "mlp_norm.weight", {width}, last + "layer_norm.weight");
    if (model.gated_mlp) {
      names.joint(ours + "mlp.gate_up", {2, mlp}, width,
                  {{dense + "wi_0", mlp}, {dense + "wi_1", mlp}}, 1, std::nullopt);
    } else {
      names.add(ours + "mlp.up.weight", {mlp, width}, dense + "wi.weight");
    }
    names.add(ours + "mlp.down.weight", {width, mlp}, dense + "wo.weight");
  }
  names.add(stack + ".final_norm.weight", {width}, stack + ".final_layer_norm.weight");
}

std::vector<TensorName> t5_names(const ModelConfig& model) {
  Names names(model);
  names.table("embedding.word", model.vocab_size, "shared.weight");
  add_t5_stack(names, model, "encoder", model.num_layers);
  add_t5_stack(names, model, "decoder", model.resolved_decoder_layers());
  if (!model.tie_embeddings) names.table("head.weight", model.vocab_size, "lm_head.weight");
  return std::move(names.names);
}

/// The names in published files, which current versions of transformers also write.
std::vector<TensorName> vit_names(const ModelConfig& model) {
  const int64_t width = model.hidden_size, mlp = model.resolved_mlp_size();
  const int64_t patch = model.patch_size;
  const std::string embeddings = "vit.embeddings.";
  const std::string projection = embeddings + "patch_embeddings.projection.";
  Names names(model);
  names.names.push_back({"embedding.patch.weight",
                         {width, model.patch_width()},
                         {{projection + "weight", {width, model.num_channels, patch, patch}}}});
  names.names.push_back({"embedding.position",
                         {model.seq_length, width},
                         {{embeddings + "position_embeddings", {1, model.seq_length, width}}}});
  names.names.push_back(
      {"embedding.token_type",
       {2, width},
       {{embeddings + "cls_token", {1, 1, width}}, {projection + "bias", {width}}}});
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i);
    const std::string theirs = fmt::format("vit.encoder.layer.{}.", i);
    const std::string qkv = ours + "attention.qkv", self = theirs + "attention.attention.";
    names.norm(ours + "attention_norm", theirs + "layernorm_before");
    names.query_key_value(qkv, {self + "query", self + "key", self + "value"},
                          names.bias_name(qkv));
    names.linear(ours + "attention.output", width, width, theirs + "attention.output.dense");
    names.norm(ours + "mlp_norm", theirs + "layernorm_after");
    names.linear(ours + "mlp.up", mlp, width, theirs + "intermediate.dense");
    names.linear(ours + "mlp.down", width, mlp, theirs + "output.dense");
  }
  names.norm("final_norm", "vit.layernorm");
  names.linear("classifier", model.num_labels, width, "classifier");
  return std::move(names.names);
}

}  // namespace

std::vector<TensorName> tensor_names(const ModelConfig& model, int64_t padding_token) {
  switch (model.kind) {
    case ModelKind::gpt2:
      return gpt2_names(model);
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
    case ModelKind::qwen3:
      return llama_names(model);
    case ModelKind::bert:
    case ModelKind::roberta:
      return bert_names(model, padding_token);
    case ModelKind::modernbert:
      return modernbert_names(model);
    case ModelKind::t5:
      return t5_names(model);
    case ModelKind::vit:
      return vit_names(model);
    case ModelKind::encoder_decoder:
      break;
  }
  fail("{} has no counterpart in transformers", architecture_of(model.kind).display_name);
}

}  // namespace tessera
