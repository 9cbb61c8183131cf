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
  expect_valid(kGpt,
               {"data.truncate=true", "data.loss_on_prompts=true", "data.chat_template=chatml"});
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

TEST(ConfigKind, LeavesNoDefaultOfAnotherKind) {
  for (const Architecture& from : architectures()) {
    for (const Architecture& to : architectures()) {
      ModelConfig model = preset(from.kind);
      apply_preset(model, to.kind);
      EXPECT_EQ(model, preset(to.kind)) << from.name << " before " << to.name;
    }
  }
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
  EXPECT_NO_THROW(validate(four, 4));
  expect_valid(kGpt, {"model.num_kv_heads=2", "model.head_dim=5"});
}

TEST(ConfigKind, EncoderDecodersHaveSourcesAndTwoStacks) {
  const std::string kind = "model.kind=encoder_decoder";
  expect_valid(kGpt, {kind, "model.num_decoder_layers=3", "model.source_length=64"});
  const RunConfig run = config_of(kGpt, {kind, "model.source_length=64"});
  EXPECT_EQ(traits_of(run.model).source_length, 64);
  EXPECT_EQ(traits_of(run.model).objective, Objective::seq2seq);
  EXPECT_TRUE(traits_of(run.model).causal);
  EXPECT_EQ(run.model.resolved_decoder_layers(), run.model.num_layers);
  const std::string reason = "model.kind is gpt2, which does not support it";
  expect_without_effect(kGpt, "model.num_decoder_layers=2", "model.num_decoder_layers", reason);
  expect_without_effect(kGpt, "model.source_length=2", "model.source_length", reason);
  EXPECT_THAT(kind_error(kGpt, {kind, "model.qk_norm=true"}),
              HasSubstr("model.qk_norm is set, but model.kind is encoder_decoder"));
  EXPECT_THAT(kind_error(kGpt, {kind, "model.positions=relative", "model.relative_buckets=7"}),
              HasSubstr("model.kind is encoder_decoder: in its encoder"));
}

TEST(ConfigKind, T5IsAnEncoderDecoderWithDefaultsOfItsOwn) {
  const std::string kind = "model.kind=t5";
  expect_valid(kGpt, {kind, "model.num_decoder_layers=3", "model.source_length=64"});
  expect_valid(kGpt, {kind, "model.gated_mlp=true", "model.activation=gelu_tanh",
                      "model.tie_embeddings=false", "model.scaled_logits=false",
                      "model.relative_buckets=16", "model.relative_max_distance=64"});
  const ModelConfig model = config_of(kGpt, {kind}).model;
  EXPECT_EQ(traits_of(model).objective, Objective::seq2seq);
  EXPECT_EQ(model.positions, Positions::relative);
  EXPECT_EQ(model.resolved_attention_scale(), 1.0);
  EXPECT_TRUE(model.tie_embeddings && model.scaled_logits);
  EXPECT_THAT(kind_error(kGpt, {kind, "model.qk_norm=true"}),
              HasSubstr("model.qk_norm is set, but model.kind is t5"));
  expect_valid(kGpt, {"model.scaled_logits=true"});
  expect_without_effect(kBert, "model.scaled_logits=true", "model.scaled_logits",
                        "model.kind is bert, which does not support it");
}

TEST(ConfigKind, MupNeedsTheSizesOfItsBase) {
  const Sets mup = joined(kGpt, {"model.mup_base_hidden_size=32", "model.mup_base_head_dim=8"});
  expect_valid(mup, {});
  const ModelConfig model = config_of(mup, {"model.hidden_size=128"}).model;
  EXPECT_EQ(model.width_mult(), 4.0);
  EXPECT_EQ(model.logit_scale(), 0.25);
  EXPECT_THAT(kind_error(kGpt, {"model.mup_base_hidden_size=32"}),
              HasSubstr("model.mup_base_hidden_size is 32, but model.mup_base_head_dim is 0"));
  expect_without_effect(kGpt, "model.mup_base_head_dim=8", "model.mup_base_head_dim",
                        "model.mup_base_hidden_size is 0");
  EXPECT_THAT(kind_error(mup, {"model.lora_rank=2"}),
              HasSubstr("model.lora_rank is 2, but model.mup_base_hidden_size is 32"));
}

TEST(ConfigKind, RejectsKeysThatGptIgnores) {
  const std::string reason = "model.kind is gpt2, which does not support it";
  expect_without_effect(kGpt, "model.token_types=2", "model.token_types", reason);
  expect_without_effect(kGpt, "model.next_sentence=true", "model.next_sentence", reason);
  expect_without_effect(kGpt, "mlm.probability=0.2", "a key of mlm", reason);
  expect_without_effect(kGpt, "data.short_samples=pack", "data.short_samples", reason);
  EXPECT_EQ(kind_error(kGpt, {"model.head=classification", "model.num_labels=2"}),
            "model.head is classification, but model.kind is gpt2: choose bert or roberta or "
            "modernbert or vit as the kind, or pretraining as the head");
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
  expect_without_effect(kBert, "data.loss_on_prompts=true", "data.loss_on_prompts", reason);
  expect_without_effect(kBert, "data.chat_template=plain", "data.chat_template", reason);
}

TEST(ConfigKind, RejectsKeysThatPretrainingIgnores) {
  const std::string reason = "model.head is pretraining";
  for (const Sets& base : {kGpt, kBert}) {
    expect_without_effect(base, "model.num_labels=2", "model.num_labels", reason);
    expect_without_effect(base, "data.labels=\"a,b\"", "data.labels", reason);
    expect_without_effect(base, "model.problem_type=regression", "model.problem_type", reason);
  }
  expect_without_effect(kBert, "data.truncate=true", "data.truncate", reason);
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

TEST(ConfigKind, LabelsOfWords) {
  const Sets words = joined(kBert, {"model.head=token_classification", "model.num_labels=3"});
  expect_valid(words, {"data.labels=\"O,B-X,I-X\"", "data.truncate=true"});
  const std::string reason = "model.head is token_classification";
  expect_without_effect(words, "model.problem_type=regression", "model.problem_type", reason);
  expect_without_effect(words, "model.next_sentence=true", "model.next_sentence", reason);
  expect_without_effect(words, "mlm.unit=span", "a key of mlm", reason);
  expect_without_effect(words, "data.short_samples=pack", "data.short_samples", reason);
  EXPECT_EQ(kind_error(words, {"model.num_labels=1"}),
            "model.num_labels is 1, but model.head is token_classification: choose the number of "
            "classes, at least 2");
  EXPECT_THAT(kind_error(words, {"model.num_labels=200", "model.vocab_size=100"}),
              HasSubstr("words have at most as many labels as there are tokens"));
  EXPECT_THAT(kind_error(kGpt, {"model.head=token_classification", "model.num_labels=2"}),
              HasSubstr("model.head is token_classification, but model.kind is gpt2"));
}

TEST(ConfigKind, EmbeddingsHaveKeysOfTheirOwn) {
  const Sets embeddings = joined(kBert, {"model.head=embedding"});
  expect_valid(embeddings,
               {"model.embedding_pooling=cls", "model.similarity_scale=50",
                "model.symmetric_loss=true", "model.hard_negatives=true", "data.truncate=true"});
  const std::string reason = "model.head is embedding";
  for (const auto& [key, value] :
       {std::pair("model.num_labels", "2"), std::pair("model.problem_type", "regression"),
        std::pair("model.next_sentence", "true"), std::pair("model.classifier_pooling", "mean"),
        std::pair("data.labels", "\"a,b\""), std::pair("data.short_samples", "pack")}) {
    expect_without_effect(embeddings, fmt::format("{}={}", key, value), key, reason);
  }
  for (const auto& [key, value] :
       {std::pair("model.embedding_pooling", "cls"), std::pair("model.similarity_scale", "50"),
        std::pair("model.symmetric_loss", "true"), std::pair("model.hard_negatives", "true")}) {
    expect_without_effect(kClassifier, fmt::format("{}={}", key, value), key,
                          "model.head is classification");
  }
  expect_valid(kClassifier, {"model.classifier_pooling=mean"});
  expect_without_effect(kBert, "model.classifier_pooling=mean", "model.classifier_pooling",
                        "model.head is pretraining");
  EXPECT_EQ(kind_error(embeddings, {"batch.global=1"}),
            "batch.global is 1, but model.head is embedding, whose loss compares the texts of a "
            "batch: choose 2 or more");
  EXPECT_THAT(kind_error(kGpt, {"model.head=embedding"}),
              HasSubstr("model.head is embedding, but model.kind is gpt2"));
}

TEST(ConfigKind, RegressionPredictsOneNumber) {
  const Sets regression =
      joined(kBert, {"model.head=classification", "model.problem_type=regression"});
  expect_valid(regression, {"model.num_labels=1"});
  EXPECT_EQ(kind_error(regression, {"model.num_labels=2"}),
            "model.num_labels is 2, but model.problem_type is regression, which predicts one "
            "number: choose 1, or leave the key out");
  EXPECT_EQ(kind_error(regression, {"model.num_labels=1", "data.labels=a"}),
            "data.labels is \"a\", but model.problem_type is regression, whose labels are numbers: "
            "leave labels out, or choose another problem_type");
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
                          "model.positions is not rotary");
    expect_without_effect(base, "model.rotary_scaling=linear", "model.rotary_scaling",
                          "model.positions is not rotary");
  }
}

TEST(ConfigKind, RelativePositionsNeedBucketsOfTheirOwn) {
  expect_valid(kGpt, {"model.positions=relative"});
  expect_valid(kBert, {"model.positions=relative"});
  expect_valid(kGpt, {"model.positions=relative", "model.relative_buckets=5",
                      "model.relative_max_distance=3"});
  for (const Sets& base : {kGpt, kBert, joined(kGpt, {"model.positions=alibi"})}) {
    expect_without_effect(base, "model.relative_buckets=16", "model.relative_buckets",
                          "model.positions is not relative");
    expect_without_effect(base, "model.relative_max_distance=64", "model.relative_max_distance",
                          "model.positions is not relative");
  }
  EXPECT_THAT(kind_error(kBert, {"model.positions=relative", "model.relative_buckets=7"}),
              HasSubstr("model.relative_buckets is 7, but model.kind is bert: in its encoder"));
  EXPECT_THAT(kind_error(kBert, {"model.positions=relative", "model.relative_max_distance=8"}),
              HasSubstr("model.relative_max_distance is 8, but model.relative_buckets is 32"));
  EXPECT_THAT(kind_error(kGpt, {"model.positions=relative", "model.relative_max_distance=16"}),
              HasSubstr("model.relative_max_distance is 16, but model.relative_buckets is 32"));
}

const Sets kModernBert = {"model.kind=modernbert", "model.hidden_size=64", "model.num_heads=4",
                          "data.tokenizer=wordpiece:vocab.txt"};

TEST(ConfigKind, RotaryScalingTakesItsOwnKeys) {
  const Sets llama = joined(kGpt, {"model.kind=llama"});
  const Sets yarn = {"model.rotary_scaling=yarn", "model.rotary_factor=4",
                     "model.rotary_original_length=64"};
  expect_valid(llama, {"model.rotary_scaling=linear", "model.rotary_factor=2"});
  expect_valid(llama,
               joined(yarn, {"model.rotary_beta_fast=16", "model.rotary_attention_factor=2"}));
  expect_valid(llama, {"model.rotary_scaling=llama3", "model.rotary_factor=8",
                       "model.rotary_original_length=64", "model.rotary_low_freq_factor=2"});
  expect_without_effect(llama, "model.rotary_factor=2", "model.rotary_factor",
                        "model.rotary_scaling is none");
  expect_without_effect(llama, "model.rotary_original_length=64", "model.rotary_original_length",
                        "model.rotary_scaling is neither llama3 nor yarn");
  expect_without_effect(joined(llama, yarn), "model.rotary_low_freq_factor=2",
                        "model.rotary_low_freq_factor", "model.rotary_scaling is not llama3");
  expect_without_effect(llama, "model.rotary_beta_slow=2", "model.rotary_beta_slow",
                        "model.rotary_scaling is not yarn");
  EXPECT_THAT(kind_error(llama, {"model.rotary_scaling=linear"}),
              HasSubstr("model.rotary_factor is 1, which stretches nothing"));
  EXPECT_THAT(kind_error(llama, {"model.rotary_scaling=yarn", "model.rotary_factor=2"}),
              HasSubstr("model.rotary_original_length is 0, but model.rotary_scaling is yarn"));
  EXPECT_THAT(kind_error(joined(llama, yarn), {"model.rotary_beta_fast=0.5"}),
              HasSubstr("model.rotary_beta_slow is 1, but model.rotary_beta_fast is 0.5"));
}

TEST(ConfigKind, WindowPatternNeedsWindow) {
  expect_valid(kModernBert, {});
  expect_valid(kModernBert, {"model.attention_window=0"});  // its defaults then have no effect
  expect_valid(kGpt, {"model.attention_window=8", "model.window_pattern=GL"});
  expect_without_effect(kGpt, "model.window_pattern=GL", "model.window_pattern",
                        "model.attention_window is 0");
  expect_without_effect(kGpt, "model.local_rotary_base=100.0", "model.local_rotary_base",
                        "model.positions is not rotary");
  EXPECT_THAT(kind_error(kModernBert, {"model.window_pattern=GG"}),
              HasSubstr("model.attention_window is 65, but model.window_pattern is GG"));
  EXPECT_THAT(kind_error(kModernBert, {"model.local_rotary_base=0.5"}),
              HasSubstr("model.local_rotary_base is 0.5"));
  EXPECT_THAT(error_of([] { config_of(kModernBert, {"model.window_pattern=GXL"}); }),
              HasSubstr("but must be a text of the letters G and L"));
  expect_without_effect(joined(kBert, {"model.kind=roberta"}), "model.next_sentence=true",
                        "model.next_sentence", "model.kind is roberta, which does not support it");
}

TEST(ConfigKind, HiddenTargetsAreAllReplaced) {
  const std::string replaced = "mlm.hide is attention, which replaces all chosen tokens by [MASK]";
  expect_valid(kBert, {"mlm.hide=attention", "mlm.probability=0.3"});
  expect_without_effect(joined(kBert, {"mlm.hide=attention"}), "mlm.mask_fraction=0.9",
                        "mlm.mask_fraction", replaced);
  expect_without_effect(joined(kBert, {"mlm.hide=attention"}), "mlm.random_fraction=0",
                        "mlm.random_fraction", replaced);
  expect_without_effect(kGpt, "mlm.hide=attention", "a key of mlm",
                        "model.kind is gpt2, which does not support it");
}

TEST(ConfigKind, AttentionMaskFileNeedsOneStack) {
  expect_valid(kGpt, {"model.attention_mask_file=mask.safetensors"});
  EXPECT_THAT(
      kind_error(kGpt, {"model.kind=t5", "model.attention_mask_file=mask.safetensors"}),
      HasSubstr("model.attention_mask_file is mask.safetensors, but model.kind is t5, whose "
                "sources and targets have positions of their own"));
}

TEST(ConfigKind, DilationAndGlobalTokensNeedWindow) {
  const Sets window = joined(kGpt, {"model.attention_window=8"});
  expect_valid(window, {"model.attention_dilation=2", "model.global_tokens=3"});
  expect_valid(kModernBert, {"model.attention_dilation=2", "model.global_tokens=3"});
  expect_without_effect(kGpt, "model.attention_dilation=2", "model.attention_dilation",
                        "model.attention_window is 0");
  expect_without_effect(kGpt, "model.global_tokens=2", "model.global_tokens",
                        "model.attention_window is 0");
  EXPECT_THAT(kind_error(kGpt, {"model.attention_window=1", "model.attention_dilation=3"}),
              HasSubstr("model.attention_dilation is 3, but model.attention_window is 1"));
  EXPECT_THAT(kind_error(window, {"model.seq_length=64", "model.attention_dilation=64"}),
              HasSubstr("choose an attention_window of at least 2 and a dilation below 64"));
  EXPECT_THAT(kind_error(window, {"model.seq_length=64", "model.global_tokens=64"}),
              HasSubstr("model.global_tokens is 64, but a text has up to 64 tokens"));
}

TEST(ConfigKind, PrefixNeedsCausalModel) {
  expect_valid(kGpt, {"model.attention_prefix=2"});
  expect_valid(kGpt, {"model.attention_prefix=16", "model.attention_window=8"});
  EXPECT_THAT(kind_error(kBert, {"model.attention_prefix=16"}),
              HasSubstr("model.attention_prefix is 16, but model.kind is bert, whose tokens see "
                        "later ones anyway: leave it out"));
  EXPECT_THAT(kind_error(kGpt, {"model.attention_prefix=1"}),
              HasSubstr("model.attention_prefix is 1, but all tokens see the first one anyway"));
  EXPECT_THAT(kind_error(kGpt, {"model.seq_length=64", "model.attention_prefix=64"}),
              HasSubstr("model.attention_prefix is 64, but model.seq_length is 64"));
}

}  // namespace
}  // namespace tessera
