#include "launch/checkpoint/model_json.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::expect_error;
using test::SmallKind;

/// The model as its checkpoint describes it.
ModelConfig without_training_keys(ModelConfig model) {
  model.dropout = model.attention_dropout = 0.0;
  model.init_stddev = ModelConfig{}.init_stddev;
  model.mlp_size = model.resolved_mlp_size();
  model.num_kv_heads = model.resolved_kv_heads();
  model.head_dim = model.resolved_head_dim();
  return model;
}

void expect_round_trip(const ModelConfig& model) {
  const Json json = Json::parse(architecture_json(model).dump());
  EXPECT_EQ(model_from_json(json), without_training_keys(model)) << json;
}

TEST(ModelJson, RoundTripsEveryKind) {
  const test::TestFolder folder;
  for (const SmallKind kind :
       {SmallKind::gpt, SmallKind::gpt_documents, SmallKind::qwen3, SmallKind::bert_pairs,
        SmallKind::bert_packed, SmallKind::modernbert, SmallKind::classifier,
        SmallKind::multi_label, SmallKind::words, SmallKind::embeddings, SmallKind::embeddings_cls,
        SmallKind::mean_classifier}) {
    SCOPED_TRACE(to_string(kind));
    ModelConfig model = test::small_run(folder, "run", kind).model;
    expect_round_trip(model);
    model.mlp_size = 44;
    model.bias = Bias::none;
    if (model.positions == Positions::rotary) model.rotary.base = 500.0;
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      model.norm_position = norm;
      expect_round_trip(model);
    }
  }
}

TEST(ModelJson, OmitsKeysThatDoNotChangeOutputs) {
  ModelConfig model;
  const Json json = architecture_json(model);
  model.dropout = 0.7;
  model.attention_dropout = 0.6;
  model.init_stddev = 0.5;
  model.mlp_size = 4 * model.hidden_size;  // the meaning of 0
  model.num_kv_heads = model.num_heads;
  model.head_dim = model.hidden_size / model.num_heads;
  EXPECT_EQ(architecture_json(model), json);
}

TEST(ModelJson, NamesInvalidValues) {
  const auto error = [](const char* key, const Json& value,
                        std::initializer_list<const char*> facts) {
    SCOPED_TRACE(key);
    Json json = architecture_json(test::gpt2_model());
    json[key] = value;
    expect_error([&] { model_from_json(json); }, facts);
  };
  error("kind", "umt5",
        {"the checkpoint's model.kind is the quoted text \"umt5\"",
         "one of: gpt2, llama, mistral, qwen2, qwen3, bert, roberta, modernbert"});
  error("norm_position", "sideways",
        {"the checkpoint's model.norm_position is the quoted text \"sideways\"",
         "one of: pre, post"});
  error("positions", "", {"the checkpoint's model.positions", "one of: learned, rotary"});
  error("head", "tail",
        {"model.head is the quoted text \"tail\"", "one of: pretraining, classification"});
  error("head", 3, {"the checkpoint's model.head is 3", "one of"});
  error("token_types", -1, {"the checkpoint's model.token_types is -1", "from 0"});
  error("next_sentence", 1, {"the checkpoint's model.next_sentence is 1", "true or false"});
  error("num_layers", "2", {"the checkpoint's model.num_layers is the quoted text \"2\""});
  error("bias", Json::array({true}), {"the checkpoint's model.bias is a list of 1"});
  error("rotary_base", 0.5, {"the checkpoint's model.rotary_base is 0.5"});
  error("head", "classification", {"the checkpoint's model is invalid", "model.kind is gpt2"});
  error("num_head", 3, {"has a key 'num_head', which this version does not know"});
}

TEST(ModelJson, NamesMissingKeys) {
  const Json model = architecture_json(test::gpt2_model());
  for (const auto& [key, value] : model.items()) {
    Json json = model;
    json.erase(key);
    expect_error([&] { model_from_json(json); }, {"the checkpoint's model has no", key.c_str()});
  }
}

}  // namespace
}  // namespace tessera
