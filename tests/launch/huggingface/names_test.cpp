#include <gtest/gtest.h>

#include <set>

#include "launch/huggingface/model_class.h"
#include "launch/huggingface/tensor_names.h"
#include "launch/huggingface/transpose.h"
#include "models/architecture.h"
#include "tests/launch/huggingface/fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;

std::map<std::string, Shape> parameters_of(const ModelConfig& model) {
  const auto world = make_self_communicator();
  ParameterStore store;
  Model made(model, store, *world);
  std::map<std::string, Shape> parameters;
  for (const Parameter& parameter : store.parameters()) {
    parameters.emplace(parameter.name, parameter.global_shape);
  }
  return parameters;
}

TEST(HuggingFaceNames, CoverEachParameterOnce) {
  for (ModelConfig model :
       {small_gpt(), small_masked_lm(), small_pretraining(), small_classifier(),
        small_encoder(ModelKind::roberta), small_encoder(ModelKind::roberta, Head::classification),
        small_encoder(ModelKind::bert, Head::embedding),
        small_encoder(ModelKind::roberta, Head::embedding)}) {
    for (const Bias bias : {Bias::all, Bias::none}) {
      model.bias = bias;
      std::map<std::string, Shape> ours;
      std::set<std::string> theirs;
      for (const TensorName& name : tensor_names(model)) {
        int64_t count = 0;
        for (const TheirTensor& other : name.theirs) {
          EXPECT_TRUE(theirs.insert(other.name).second);
          count += other.shape.numel();
          EXPECT_EQ(other.shape.numel() % name.groups, 0) << other.name;
        }
        const int64_t unused = name.unused_rows * model.hidden_size;
        EXPECT_EQ(count, name.shape.numel() + unused) << name.theirs[0].name;
        if (name.ours.empty()) continue;
        EXPECT_TRUE(ours.emplace(name.ours, name.shape).second) << name.ours;
      }
      EXPECT_EQ(ours, parameters_of(model)) << to_string(model.kind);
    }
  }
}

ModelConfig with_bias(ModelKind kind, Bias bias) {
  ModelConfig model = small_llama(kind);
  model.bias = bias;
  return model;
}

TEST(HuggingFaceNames, CoverEachParameterOfModelsWithoutBiasesOnce) {
  for (const ModelConfig& model :
       {small_llama(), small_llama(ModelKind::mistral), small_llama(ModelKind::qwen2),
        small_llama(ModelKind::qwen3), with_bias(ModelKind::llama, Bias::attention),
        with_bias(ModelKind::llama, Bias::all), with_bias(ModelKind::qwen3, Bias::attention),
        small_encoder(ModelKind::modernbert),
        small_encoder(ModelKind::modernbert, Head::classification),
        small_encoder(ModelKind::modernbert, Head::embedding), small_t5(), small_gated_t5()}) {
    std::map<std::string, Shape> ours;
    for (const TensorName& name : tensor_names(model)) {
      EXPECT_TRUE(ours.emplace(name.ours, name.shape).second) << name.ours;
    }
    EXPECT_EQ(ours, parameters_of(model)) << to_string(model.kind);
  }
}

TEST(HuggingFaceNames, FillOmittedParametersWithZeros) {
  ModelConfig model = small_masked_lm();
  model.token_types = 0;
  model.bias = Bias::none;
  int zeros = 0;
  for (const TensorName& name : tensor_names(model)) {
    if (!name.ours.empty()) continue;
    ++zeros;
    if (name.theirs[0].name == "bert.embeddings.token_type_embeddings.weight") {
      EXPECT_EQ(name.theirs[0].shape, Shape({2, model.hidden_size}));
    } else {
      EXPECT_NE(name.theirs[0].name.find("bias"), std::string::npos) << name.theirs[0].name;
    }
  }
  // The token types; 2 norms, qkv and 3 linear layers per block; the embedding's norm; the head's
  // linear layer, norm and bias.
  EXPECT_EQ(zeros, 1 + 2 * 6 + 1 + 3);
}

TEST(HuggingFaceNames, TransposeSwapsRowsAndColumns) {
  constexpr int64_t kRows = 37, kColumns = 70;
  std::vector<float> matrix(kRows * kColumns), turned(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  transpose(matrix.data(), kRows, kColumns, turned.data());
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      ASSERT_EQ(turned[static_cast<size_t>(j * kRows + i)],
                matrix[static_cast<size_t>(i * kColumns + j)]);
    }
  }
}

TEST(HuggingFaceNames, MapModelsToClasses) {
  EXPECT_EQ(to_string(model_class_of(small_gpt())), "GPT2LMHeadModel");
  EXPECT_EQ(to_string(model_class_of(small_llama())), "LlamaForCausalLM");
  EXPECT_EQ(to_string(model_class_of(small_llama(ModelKind::mistral))), "MistralForCausalLM");
  EXPECT_EQ(to_string(model_class_of(small_llama(ModelKind::qwen2))), "Qwen2ForCausalLM");
  EXPECT_EQ(to_string(model_class_of(small_llama(ModelKind::qwen3))), "Qwen3ForCausalLM");
  EXPECT_EQ(to_string(model_class_of(small_encoder(ModelKind::roberta))), "RobertaForMaskedLM");
  EXPECT_EQ(to_string(model_class_of(small_encoder(ModelKind::modernbert, Head::classification))),
            "ModernBertForSequenceClassification");
  EXPECT_EQ(to_string(model_class_of(small_masked_lm())), "BertForMaskedLM");
  EXPECT_EQ(to_string(model_class_of(small_pretraining())), "BertForPreTraining");
  EXPECT_EQ(to_string(model_class_of(small_classifier())), "BertForSequenceClassification");
  EXPECT_EQ(to_string(model_class_of(small_t5())), "T5ForConditionalGeneration");
  EXPECT_EQ(to_string(model_class_of(small_gated_t5())), "T5ForConditionalGeneration");
  EXPECT_EQ(model_class_of("GPT2Model", "x"), ModelClass::gpt2_lm_head);
  expect_error([] { model_class_of("MambaForCausalLM", "DIR/config.json"); },
               {"DIR/config.json: the architecture \"MambaForCausalLM\" cannot be imported",
                "GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
                "Qwen3ForCausalLM, BertForPreTraining, BertForMaskedLM, "
                "BertForSequenceClassification, BertForTokenClassification, RobertaForMaskedLM, "
                "RobertaForSequenceClassification, RobertaForTokenClassification, "
                "ModernBertForMaskedLM, ModernBertForSequenceClassification, "
                "ModernBertForTokenClassification, BertModel, RobertaModel, ModernBertModel, "
                "T5ForConditionalGeneration"});
}

TEST(HuggingFaceNames, RejectUnsupportedOptionsByKey) {
  const auto refused = [](ModelConfig model, auto change,
                          std::initializer_list<const char*> facts) {
    change(model);
    expect_error([&] { model_class_of(model); }, facts);
  };
  refused(small_gpt(), [](ModelConfig& model) { model.positions = Positions::rotary; },
          {"model.positions is rotary"});
  refused(small_gpt(), [](ModelConfig& model) { model.attention_window = 4; },
          {"model.attention_window is 4"});
  refused(small_gpt(), [](ModelConfig& model) { model.attention_prefix = 4; },
          {"model.attention_prefix is 4", "GPT-2 in transformers has 0"});
  refused(small_gpt(), [](ModelConfig& model) { model.norm_position = NormPosition::post; },
          {"model.norm_position is post", "GPT-2 in transformers has pre"});
  refused(small_masked_lm(), [](ModelConfig& model) { model.norm_position = NormPosition::pre; },
          {"model.norm_position is pre", "BERT in transformers has post"});
  refused(small_gpt(), [](ModelConfig& model) { model.norm = NormType::rms; },
          {"model.norm is rms", "GPT-2 in transformers has layer"});
  refused(small_gpt(), [](ModelConfig& model) { model.gated_mlp = true; },
          {"model.gated_mlp is true"});
  refused(small_gpt(), [](ModelConfig& model) { model.num_kv_heads = 1; },
          {"model.num_kv_heads is 1", "each head of GPT-2 has a key"});
  refused(small_llama(), [](ModelConfig& model) { model.bias = Bias::qkv; },
          {"model.bias is qkv", "Llama in transformers has false"});
  refused(small_llama(), [](ModelConfig& model) { model.attention_window = 4; },
          {"model.attention_window is 4", "Llama"});
  refused(small_llama(), [](ModelConfig& model) { model.positions = Positions::learned; },
          {"model.positions is learned"});
  refused(small_llama(), [](ModelConfig& model) { model.qk_norm = true; },
          {"model.qk_norm is true", "Llama in transformers has false"});
  refused(small_llama(ModelKind::mistral), [](ModelConfig& model) { model.window_pattern = "LG"; },
          {"model.window_pattern is LG", "all layers of Mistral"});
  refused(small_encoder(ModelKind::modernbert), [](ModelConfig& model) { model.bias = Bias::all; },
          {"model.bias is true", "ModernBERT in transformers has false"});
  refused(small_llama(ModelKind::qwen2), [](ModelConfig& model) { model.head_dim = 4; },
          {"model.head_dim is 4", "Qwen2"});
  refused(small_classifier(), [](ModelConfig& model) { model.classifier_pooling = Pooling::mean; },
          {"model.classifier_pooling is mean", "BERT classifies [CLS]"});
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::mistral, ModelKind::qwen2}) {
    const ModelConfig model = kind == ModelKind::gpt2 ? small_gpt() : small_llama(kind);
    refused(model, [](ModelConfig& changed) { changed.bias = Bias::attention; },
            {"model.bias is attention"});
  }
  for (const ModelConfig& model :
       {small_gpt(), small_llama(), small_masked_lm(), small_encoder(ModelKind::modernbert)}) {
    refused(model, [](ModelConfig& changed) { changed.attention_scale = 1.0; },
            {"model.attention_scale is 1", "in transformers has 0."});
    refused(model, [](ModelConfig& changed) { changed.embedding_norm = !changed.embedding_norm; },
            {"model.embedding_norm is "});
    refused(model, [](ModelConfig& changed) { changed.scaled_logits = true; },
            {"model.scaled_logits is true"});
  }
  refused(small_t5(), [](ModelConfig& model) { model.scaled_logits = false; },
          {"model.scaled_logits is false, but model.tie_embeddings is true"});
  refused(small_t5(), [](ModelConfig& model) { model.attention_scale = 0.5; },
          {"model.attention_scale is 0.5", "T5 in transformers has 1"});
  refused(small_t5(), [](ModelConfig& model) { model.num_kv_heads = 1; },
          {"model.num_kv_heads is 1", "each head of T5 has a key"});
  refused(small_t5(), [](ModelConfig& model) { model.bias = Bias::all; }, {"model.bias is true"});
  refused(small_gated_t5(), [](ModelConfig& model) { model.activation = Activation::gelu; },
          {"model.activation is gelu", "gelu_tanh"});
  ModelConfig same = small_llama();
  same.attention_scale = same.resolved_attention_scale();
  EXPECT_EQ(model_class_of(same), ModelClass::llama_causal_lm);
  ModelConfig whole = small_gpt();
  whole.attention_window = whole.seq_length;  // hides nothing
  EXPECT_EQ(model_class_of(whole), ModelClass::gpt2_lm_head);
}

}  // namespace
}  // namespace tessera
