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

TEST(InteropNames, CoverEachParameterOnce) {
  for (ModelConfig model :
       {small_gpt(), small_masked_lm(), small_pretraining(), small_classifier()}) {
    for (const bool bias : {true, false}) {
      model.bias = bias;
      std::map<std::string, Shape> ours;
      std::set<std::string> theirs;
      for (const TensorName& name : tensor_names(model)) {
        for (const std::string& other : name.theirs) EXPECT_TRUE(theirs.insert(other).second);
        const int64_t count = name.shape.numel();
        EXPECT_EQ(name.their_shape.numel() * std::ssize(name.theirs), count) << name.theirs[0];
        if (name.ours.empty()) continue;
        EXPECT_TRUE(ours.emplace(name.ours, name.shape).second) << name.ours;
      }
      EXPECT_EQ(ours, parameters_of(model)) << to_string(model.kind);
    }
  }
}

TEST(InteropNames, FillOmittedParametersWithZeros) {
  ModelConfig model = small_masked_lm();
  model.token_types = 0;
  model.bias = false;
  int zeros = 0;
  for (const TensorName& name : tensor_names(model)) {
    if (!name.ours.empty()) continue;
    ++zeros;
    if (name.theirs[0] == "bert.embeddings.token_type_embeddings.weight") {
      EXPECT_EQ(name.their_shape, Shape({2, model.hidden_size}));
    } else {
      EXPECT_NE(name.theirs[0].find("bias"), std::string::npos) << name.theirs[0];
    }
  }
  // The token types; 2 norms, qkv and 3 linear layers per block; the embedding's norm; the head's
  // linear layer, norm and bias.
  EXPECT_EQ(zeros, 1 + 2 * 6 + 1 + 3);
}

TEST(InteropNames, TransposeSwapsRowsAndColumns) {
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

TEST(InteropNames, MapModelsToClasses) {
  EXPECT_EQ(to_string(model_class_of(small_gpt())), "GPT2LMHeadModel");
  EXPECT_EQ(to_string(model_class_of(small_masked_lm())), "BertForMaskedLM");
  EXPECT_EQ(to_string(model_class_of(small_pretraining())), "BertForPreTraining");
  EXPECT_EQ(to_string(model_class_of(small_classifier())), "BertForSequenceClassification");
  EXPECT_EQ(model_class_of("GPT2Model", "x"), ModelClass::gpt2_lm_head);
  expect_error([] { model_class_of("LlamaForCausalLM", "DIR/config.json"); },
               {"DIR/config.json: the architecture \"LlamaForCausalLM\" cannot be imported",
                "GPT2LMHeadModel, BertForPreTraining, BertForMaskedLM, "
                "BertForSequenceClassification"});
}

TEST(InteropNames, RejectUnsupportedOptionsByKey) {
  const auto refused = [](ModelConfig model, auto change,
                          std::initializer_list<const char*> facts) {
    change(model);
    expect_error([&] { model_class_of(model); }, facts);
  };
  refused(small_gpt(), [](ModelConfig& model) { model.positions = Positions::rotary; },
          {"model.positions is rotary"});
  refused(small_gpt(), [](ModelConfig& model) { model.attention_window = 4; },
          {"model.attention_window is 4"});
  refused(small_gpt(), [](ModelConfig& model) { model.norm = NormPosition::post; },
          {"model.norm is post", "GPT-2 normalizes before"});
  refused(small_masked_lm(), [](ModelConfig& model) { model.norm = NormPosition::pre; },
          {"model.norm is pre", "BERT normalizes after"});
  ModelConfig whole = small_gpt();
  whole.attention_window = whole.seq_length;  // hides nothing
  EXPECT_EQ(model_class_of(whole), ModelClass::gpt2_lm_head);
}

}  // namespace
}  // namespace tessera
