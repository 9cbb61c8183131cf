#include <set>
#include <string>
#include <vector>

#include "launch/checkpoint/model_json.h"
#include "launch/config/schema_list.h"
#include "launch/config/validate.h"
#include "models/architecture.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using Sets = std::vector<std::string>;

const Sets kGpt = {"model.hidden_size=64", "model.num_heads=16"};
const Sets kBert = {"model.hidden_size=64", "model.num_heads=16", "model.kind=bert",
                    "model.token_types=2", "data.tokenizer=wordpiece:vocab.txt"};

Sets joined(const Sets& a, const Sets& b) {
  Sets all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

const Sets kClassifier = joined(kBert, {"model.head=classification", "model.num_labels=3"});

RunConfig config_of(const Sets& base, const Sets& sets) {
  return parse_config("x.yaml", kMinimal, joined(base, sets));
}

void expect_valid(const Sets& base, const Sets& sets) {
  EXPECT_NO_THROW(validate(config_of(base, sets), 1)) << testing::PrintToString(sets);
}

std::string kind_error(const Sets& base, const Sets& sets) {
  return error_of([&] { validate(config_of(base, sets), 1); });
}

/// Expects that a key is refused because it would have no effect.
void expect_without_effect(const Sets& base, const std::string& set, const std::string& key,
                           const std::string& reason) {
  EXPECT_EQ(kind_error(base, {set}),
            fmt::format("{} is set, but {}: it would have no effect, so leave it out", key, reason))
      << set;
}

TEST(ConfigKind, AcceptsOptionsOfEachKind) {
  expect_valid(kGpt, {"data.separate_documents=true", "data.loss_across_documents=false",
                      "model.attention_window=8", "model.positions=rotary",
                      "model.rotary_base=500.0", "model.norm_position=post"});
  expect_valid(kGpt, {"data.packing=documents"});
  expect_valid(kBert, {});
  expect_valid(kBert, {"model.next_sentence=true", "model.norm_position=pre"});
  expect_valid(kBert, {"data.short_samples=pack", "mlm.unit=span", "mlm.max_span=3",
                       "model.token_types=0", "model.positions=rotary"});
  expect_valid(kBert, {"mlm.probability=1.0", "mlm.mask_fraction=1.0", "mlm.random_fraction=0.0"});
  expect_valid(kClassifier, {"data.labels=\"a,b,c\"", "data.truncate=true"});
  expect_valid(kClassifier, {"model.token_types=0"});
}

TEST(ConfigKind, SetsDefaultsThatGivenKeysOverride) {
  const auto model = [](const Sets& sets) { return config_of(kGpt, sets).model; };
  ModelConfig llama = model({});
  apply_preset(llama, ModelKind::llama);
  EXPECT_EQ(model({"model.kind=llama"}), llama);
  llama.norm = NormType::layer;
  llama.bias = Bias::qkv;
  EXPECT_EQ(model({"model.norm=layer", "model.kind=llama", "model.bias=qkv"}), llama);
  EXPECT_EQ(model({"model.kind=llama", "model.kind=gpt2"}), model({}));
}

// Otherwise a kind would change a default without a word in the reference.
TEST(ConfigKind, DefaultsOfKindsDifferOnlyInKeysThatSaySo) {
  std::set<std::string> by_kind = {"kind"};
  for (const SectionInfo& section : config_sections()) {
    for (const KeyInfo& key : section.keys) {
      if (key.by_kind) by_kind.insert(key.name);
    }
  }
  const Json base = architecture_json(ModelConfig{});
  EXPECT_EQ(preset(ModelKind::gpt2), ModelConfig{});
  for (const Architecture& architecture : architectures()) {
    ModelConfig model = preset(architecture.kind);
    model.mlp_size = ModelConfig{}.resolved_mlp_size();  // a gate changes the meaning of 0
    const Json json = architecture_json(model);
    for (const auto& [key, value] : json.items()) {
      const bool is_default = value == base.at(key);
      EXPECT_TRUE(is_default || by_kind.contains(key)) << architecture.name << ": " << key;
    }
  }
}

TEST(ConfigKind, NamesHeadsThatDoNotFit) {
  EXPECT_THAT(kind_error(kGpt, {"model.num_kv_heads=3"}),
              HasSubstr("model.num_kv_heads is 3, but model.num_heads is 16"));
  EXPECT_THAT(kind_error(kBert, {"model.tie_embeddings=false"}),
              HasSubstr("model.tie_embeddings is false, but model.kind is bert"));
  EXPECT_THAT(kind_error(kClassifier, {"model.tie_embeddings=false"}),
              HasSubstr("model.tie_embeddings is false, but model.head is classification"));
  const RunConfig four = config_of(kGpt, {"model.num_kv_heads=2", "parallel.tensor=4"});
  EXPECT_THAT(error_of([&] { validate(four, 4); }),
              HasSubstr("parallel.tensor is 4, but model.num_kv_heads is 2"));
  expect_valid(kGpt, {"model.num_kv_heads=2", "model.head_dim=5"});
}

TEST(ConfigKind, RejectsKeysThatGptIgnores) {
  const std::string reason = "model.kind is gpt2, which does not support it";
  expect_without_effect(kGpt, "model.token_types=2", "model.token_types", reason);
  expect_without_effect(kGpt, "model.next_sentence=true", "model.next_sentence", reason);
  expect_without_effect(kGpt, "mlm.probability=0.2", "a key of mlm", reason);
  expect_without_effect(kGpt, "data.short_samples=pack", "data.short_samples", reason);
  EXPECT_EQ(kind_error(kGpt, {"model.head=classification", "model.num_labels=2"}),
            "model.head is classification, but model.kind is gpt2: choose bert as the kind, or "
            "pretraining as the head");
}

TEST(ConfigKind, RejectsKeysThatPackedDocumentsIgnore) {
  const std::string reason =
      "data.packing is documents, which do not attend to one another and are not predicted from "
      "one another";
  const Sets packed = joined(kGpt, {"data.packing=documents"});
  expect_without_effect(packed, "data.separate_documents=true", "data.separate_documents", reason);
  expect_without_effect(packed, "data.loss_across_documents=false", "data.loss_across_documents",
                        reason);
}

TEST(ConfigKind, RejectsKeysThatBertIgnores) {
  const std::string reason = "model.kind is bert, whose samples are documents or parts of them";
  expect_without_effect(kBert, "data.packing=documents", "data.packing", reason);
  expect_without_effect(kBert, "data.separate_documents=true", "data.separate_documents", reason);
  expect_without_effect(kBert, "data.loss_across_documents=false", "data.loss_across_documents",
                        reason);
}

TEST(ConfigKind, RejectsKeysThatPretrainingIgnores) {
  const std::string reason = "model.head is pretraining";
  for (const Sets& base : {kGpt, kBert}) {
    expect_without_effect(base, "model.num_labels=2", "model.num_labels", reason);
    expect_without_effect(base, "data.labels=\"a,b\"", "data.labels", reason);
    expect_without_effect(base, "data.truncate=true", "data.truncate", reason);
  }
}

TEST(ConfigKind, RejectsKeysThatClassificationIgnores) {
  const std::string reason = "model.head is classification";
  expect_without_effect(kClassifier, "model.next_sentence=true", "model.next_sentence", reason);
  expect_without_effect(kClassifier, "mlm.unit=span", "a key of mlm", reason);
  expect_without_effect(kClassifier, "data.short_samples=pack", "data.short_samples", reason);
}

TEST(ConfigKind, ClassificationNeedsTwoLabels) {
  EXPECT_EQ(kind_error(kClassifier, {"model.num_labels=1"}),
            "model.num_labels is 1, but model.head is classification: choose the number of "
            "classes, at least 2");
}

TEST(ConfigKind, RejectsInvalidMaskingOptions) {
  EXPECT_THAT(kind_error(kBert, {"mlm.probability=0.0"}), HasSubstr("mlm.probability is 0"));
  EXPECT_EQ(kind_error(kBert, {"mlm.mask_fraction=0.7", "mlm.random_fraction=0.5"}),
            "mlm.mask_fraction and mlm.random_fraction are 0.7 and 0.5: both are fractions of the "
            "chosen tokens, so their sum must be at most 1");
  expect_without_effect(kBert, "mlm.max_span=3", "mlm.max_span", "mlm.unit is not span");
}

TEST(ConfigKind, SentencePairsNeedTwoTokenTypesAndNoPacking) {
  EXPECT_EQ(kind_error(kBert, {"model.next_sentence=true", "model.token_types=1"}),
            "model.next_sentence is true, but model.token_types is 1: a pair needs 2 token types, "
            "so choose 2");
  EXPECT_THAT(kind_error(kBert, {"model.next_sentence=true", "data.short_samples=pack"}),
              HasSubstr("data.short_samples is pack, but model.next_sentence is true"));
}

TEST(ConfigKind, BertSamplesNeedRoomForText) {
  EXPECT_THAT(kind_error(kBert, {"model.seq_length=7"}), HasSubstr("model.seq_length is 7"));
  expect_valid(kBert, {"model.seq_length=8"});
}

TEST(ConfigKind, RotaryPositionsNeedEvenHeadSize) {
  EXPECT_EQ(kind_error(kGpt, {"model.positions=rotary", "model.hidden_size=48"}),
            "model.positions is rotary, but a head has 3 columns: they "
            "are rotated in pairs, so choose an even number");
  for (const Sets& base : {kGpt, kBert, kClassifier}) {
    expect_without_effect(base, "model.rotary_base=500.0", "model.rotary_base",
                          "model.positions is learned");
  }
}

}  // namespace
}  // namespace tessera
