#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/launch/config/support.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(ConfigLoad, ReadsKeysAndDefaults) {
  const RunConfig config = parse_config("x.yaml", R"(# every kind of value
run:
  dir: "runs/a b"   # quoted
  device: cpu
  precision: bf16
model: {num_layers: 3, dropout: 0, bias: false}
data:
  train: runs/a/text
  eval: 'it''s'
batch:
  global: 1e2
  micro: 5
train: {steps: 10}
optimizer:
  lr: 3.0e-4
  betas:
    - 0.8
    - 0.99
  schedule: linear
checkpoint: {resume: required, from: null}
)");
  EXPECT_EQ(config.run.dir, "runs/a b");
  EXPECT_EQ(config.run.seed, 1234);
  EXPECT_EQ(config.run.device, DeviceChoice::cpu);
  EXPECT_EQ(config.run.precision, DType::bf16);
  EXPECT_EQ(config.model.num_layers, 3);
  EXPECT_EQ(config.model.hidden_size, ModelConfig().hidden_size);
  EXPECT_EQ(config.model.dropout, 0.0);
  EXPECT_EQ(config.model.bias, Bias::none);
  EXPECT_EQ(config.data.eval, "it's");
  EXPECT_EQ(config.batch.global, 100);
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_THAT(config.optimizer.betas, testing::ElementsAre(0.8, 0.99));
  EXPECT_EQ(config.optimizer.schedule, LrSchedule::linear);
  EXPECT_EQ(config.optimizer.eps, OptimizerSection().eps);
  EXPECT_EQ(config.checkpoint.resume, ResumeMode::required);
  EXPECT_EQ(config.checkpoint.from, std::nullopt);
}

class ConfigInclude : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  std::string error_of_file(const std::string& path) const {
    return error_of([&] { load_config(path); });
  }

  test::TestFolder folder_;
};

TEST_F(ConfigInclude, TheIncludingFileWins) {
  write("base.yaml",
        "data: {train: runs/text}\nmodel: {kind: bert, num_layers: 7, num_heads: 2}\n");
  write("deep/steps.yaml", "include: ../base.yaml\ntrain: {steps: 5}\nmodel: {num_layers: 6}\n");
  const std::string file =
      write("x.yaml", "include:\n  - deep/steps.yaml\n  - lr.yaml\nmodel: {num_layers: 3}\n");
  write("lr.yaml", "optimizer: {lr: 0.5}\n");
  const RunConfig config = load_config(file, std::vector<std::string>{"train.steps=9"});
  EXPECT_EQ(config.model.kind, ModelKind::bert);
  EXPECT_EQ(config.model.num_layers, 3);
  EXPECT_EQ(config.model.num_heads, 2);
  EXPECT_EQ(config.model.norm_position, NormPosition::post);  // BERT's
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.run.dir, "runs/x");
  EXPECT_EQ(load_config(write("only.yaml", "include: x.yaml\n")).model.num_layers, 3);
}

TEST_F(ConfigInclude, NamesBothFilesOfAnError) {
  const std::string missing = write("x.yaml", "run: {seed: 1}\ninclude: none.yaml\n");
  EXPECT_THAT(error_of_file(missing), AllOf(HasSubstr("x.yaml:2:1: included here: "),
                                            HasSubstr("none.yaml: "), HasSubstr("No such file")));
  write("b.yaml", "train: {steps: -1}\n");
  EXPECT_THAT(error_of_file(write("x.yaml", "include: b.yaml\n")),
              HasSubstr("b.yaml:1:9: train.steps is -1"));
  write("b.yaml", "include: x.yaml\n");
  EXPECT_THAT(error_of_file(missing), HasSubstr("b.yaml:1:1: "));
  EXPECT_THAT(error_of_file(missing), HasSubstr("x.yaml\" includes itself"));
  EXPECT_THAT(error_of_file(write("x.yaml", "include: {a: b}\n")),
              HasSubstr("x.yaml:1:1: include must be a file, or a list of files"));
  EXPECT_THAT(error_of([] { parse_config("text", "include: b.yaml\n"); }),
              HasSubstr("text:1:1: only a file can include others"));
}

TEST(ConfigLoad, RefusesVariablesOfTheEnvironment) {
  EXPECT_THAT(error_of([] { parse_config("x.yaml", "data: {train: [\"${HOME}/text\"]}\n"); }),
              HasSubstr("x.yaml:1:16: \"${HOME}/text\": variables of the environment are not"));
}

TEST(ConfigLoad, OverridesReplaceAndAddKeys) {
  const std::vector<std::string> sets = {"model.num_layers=3", "optimizer.betas=[0.5, 0.6]",
                                         "run.dir=runs/c=d",   "model.num_layers=5",
                                         "data.eval=runs/e",   "train.steps=1e3",
                                         "data.eval=",         "log={interval: 7}"};
  const RunConfig config =
      parse_config("x.yaml", "data: {train: a}\nbatch: {global: 8, micro: 2}\n", sets);
  EXPECT_EQ(config.run.dir, "runs/c=d");
  EXPECT_EQ(config.model.num_layers, 5) << "the later one wins";
  EXPECT_THAT(config.optimizer.betas, testing::ElementsAre(0.5, 0.6));
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.data.eval, std::nullopt);
  EXPECT_EQ(config.log.interval, 7);
}

TEST(ConfigLoad, NamesUnknownKeyWithPlaceAndNearestKeys) {
  EXPECT_EQ(load_error(kMinimal + "log:\n  intervall: 3\n"),
            "x.yaml:6:3: unknown key 'log.intervall'; did you mean 'log.interval'?");
  EXPECT_EQ(load_error(kMinimal + "model:\n  num_layer: 3\n"),
            "x.yaml:6:3: unknown key 'model.num_layer'; did you mean 'model.num_layers'?");
  EXPECT_EQ(set_error("model.nmu_heads=3"),
            "--set model.nmu_heads=3: unknown key 'model.nmu_heads'; did you mean "
            "'model.num_heads'?");
  EXPECT_EQ(set_error("model.Num-Layers=3"),
            "--set model.Num-Layers=3: unknown key 'model.Num-Layers'; did you mean "
            "'model.num_layers'?");
  EXPECT_EQ(set_error("log.timeline_stip=3"),
            "--set log.timeline_stip=3: unknown key 'log.timeline_stip'; did you mean "
            "'log.timeline_skip' or 'log.timeline_steps'?");
  EXPECT_EQ(set_error("model.xylophone=3"),
            "--set model.xylophone=3: unknown key 'model.xylophone'; `tessera config --markdown` "
            "lists all keys");
}

TEST(ConfigLoad, SuggestsSectionForMisplacedKey) {
  EXPECT_THAT(set_error("train.lr=3"), EndsWith("'train.lr'; did you mean 'optimizer.lr'?"));
  EXPECT_THAT(set_error("model.precision=bf16"), EndsWith("did you mean 'run.precision'?"));
  EXPECT_THAT(set_error("train.grad_clp=1"), EndsWith("did you mean 'optimizer.grad_clip'?"));
  EXPECT_THAT(set_error("train.interval=1"),
              EndsWith("did you mean 'eval.interval', 'checkpoint.interval' or 'log.interval'?"));
  EXPECT_EQ(load_error("lr: 3\n" + kMinimal),
            "x.yaml:1:1: unknown key 'lr'; did you mean 'optimizer.lr'?");
}

TEST(ConfigLoad, TranslatesNamesOfOtherFrameworks) {
  EXPECT_EQ(load_error(kMinimal + "model:\n  n_layer: 3\n"),
            "x.yaml:6:3: unknown key 'model.n_layer'; it is called model.num_layers here");
  EXPECT_EQ(load_error("block_size: 3\n" + kMinimal),
            "x.yaml:1:1: unknown key 'block_size'; it is called model.seq_length here");
  EXPECT_EQ(set_error("train.--lr-warmup-iters=3"),
            "--set train.--lr-warmup-iters=3: unknown key 'train.--lr-warmup-iters'; it is called "
            "optimizer.warmup_steps here");
  EXPECT_EQ(set_error("optimizer.beta1=0.9"),
            "--set optimizer.beta1=0.9: unknown key 'optimizer.beta1'; it is called "
            "optimizer.betas here (a list of two, as in [0.9, 0.95])");
  EXPECT_EQ(set_error("batch.gradient_accumulation_steps=4"),
            "--set batch.gradient_accumulation_steps=4: unknown key "
            "'batch.gradient_accumulation_steps'; it has no key here: a step accumulates "
            "batch.global / (batch.micro × data ranks) micro-batches");
}

TEST(ConfigLoad, ReadsPeftsNamesOfLayers) {
  using Targets = std::vector<std::string>;
  const auto targets = [](const char* value) {
    return parse_config("x.yaml", kMinimal,
                        Targets{"model.lora_rank=4", fmt::format("model.lora_targets={}", value)})
        .model.lora_targets;
  };
  EXPECT_EQ(targets("all-linear"), Targets{"*"});
  EXPECT_EQ(targets("[v_proj, o_proj, q_proj, k_proj]"),
            (Targets{"*.attention.qkv", "*.attention.output"}));
  EXPECT_EQ(targets("[query, key, value, '*.mlp.up']"), (Targets{"*.attention.qkv", "*.mlp.up"}));
  EXPECT_EQ(targets("[c_attn, c_proj]"),
            (Targets{"*.attention.qkv", "*.attention.output", "*.mlp.down"}));
  EXPECT_EQ(targets("[gate_proj, up_proj, down_proj]"), (Targets{"*.mlp.gate_up", "*.mlp.down"}));
  EXPECT_THAT(set_error("model.lora_targets=[q_proj, v_proj]"),
              HasSubstr("model.lora_targets has q_proj and v_proj without k_proj: queries, keys "
                        "and values are one layer here, so write \"*.attention.qkv\""));
  EXPECT_THAT(set_error("model.lora_targets=up_proj"), HasSubstr("without gate_proj"));
}

TEST(ConfigLoad, NamesUnknownSections) {
  EXPECT_EQ(load_error(kMinimal + "optimiser: {lr: 1}\n"),
            "x.yaml:5:1: unknown section 'optimiser'; did you mean 'optimizer'?");
  EXPECT_EQ(load_error(kMinimal + "<<: {lr: 1}\n"),
            "x.yaml:5:1: unknown section '<<'; the sections are run, model, data, mlm, "
            "span_corruption, augmentation, parallel, "
            "batch, train, optimizer, eval, checkpoint, log");
  EXPECT_THAT(set_error("trian.steps=3"),
              EndsWith("unknown section 'trian'; did you mean 'train'?"));
  EXPECT_THAT(set_error("zero_optimization={stage: 1}"), HasSubstr("called parallel.zero here"));
  EXPECT_THAT(set_error("model.bias.deep=3"), HasSubstr("unknown key 'model.bias.deep'"));
}

TEST(ConfigLoad, RejectsDuplicateKeysAndSections) {
  EXPECT_EQ(load_error(kMinimal + "log:\n  interval: 3\n  interval: 3\n"),
            "x.yaml:7:3: 'log.interval' is given twice, first on line 6; remove one");
  EXPECT_EQ(load_error(kMinimal + "log: {interval: 3}\ntrain: {steps: 1}\n"),
            "x.yaml:6:1: 'train' is given twice, first on line 4; remove one");
}

TEST(ConfigLoad, RequiresSectionsToBeMaps) {
  EXPECT_THAT(
      load_error(kMinimal + "log:\n"),
      AllOf(StartsWith("x.yaml:5:1: the section 'log' is empty"), EndsWith("timeline_skip")));
  EXPECT_THAT(load_error(kMinimal + "log: [1]\n"), HasSubstr("'log' must be a map of keys"));
  EXPECT_THAT(set_error("log=3"), HasSubstr("--set log=3: the section 'log' must be a map"));
}

TEST(ConfigLoad, NamesAllMissingRequiredKeys) {
  const std::string message = load_error("model: {num_layers: 3}\n");
  for (const char* key : {"data.train", "train.steps"}) {
    EXPECT_THAT(message, HasSubstr(fmt::format("x.yaml: the key '{}' is missing", key)));
  }
  EXPECT_THAT(message, Not(HasSubstr("optimizer")));
  EXPECT_THAT(load_error(kMinimal, {"run.dir="}), Not(HasSubstr("missing")))
      << "an invalid key is not missing";
}

TEST(ConfigLoad, EpochsReplaceSteps) {
  const std::string data = "data: {train: x}\n";
  EXPECT_TRUE(
      parse_config("x.yaml", data + "train: {epochs: 2}\n").automatic.contains("train.steps"));
  EXPECT_FALSE(
      parse_config("x.yaml", data + "train: {steps: 2}\n").automatic.contains("train.steps"));
  EXPECT_THAT(load_error(data + "train: {steps: auto}\n"), HasSubstr("'train.steps' is missing"));
}

TEST(ConfigLoad, ReportsAllErrorsInFileOrder) {
  EXPECT_EQ(load_error(R"(run: {dir: a, sead: 3}
data: {train: x}
batch:
  micro: 0
  global: many
train: {steps: 5}
)",
                       {"log.interval=0", "junk"}),
            "x.yaml:1:15: unknown key 'run.sead'; did you mean 'run.seed'?\n"
            "x.yaml:4:3: batch.micro is 0, but must be an integer from 1 to 100000000\n"
            "x.yaml:5:3: batch.global is many, but must be an integer from 1 to 100000000\n"
            "--set log.interval=0: log.interval is 0, but must be an integer from 1 to 1000000000\n"
            "--set junk: must have the form section.key=value, as in optimizer.lr=0.001");
}

TEST(ConfigLoad, TruncatesLongListOfErrors) {
  std::string yaml = kMinimal + "log:\n";
  for (int i = 0; i < 50; ++i) yaml += fmt::format("  wrong_{}: 1\n", i);
  EXPECT_THAT(load_error(yaml), EndsWith("\nand 30 more errors"));
}

struct WrongValue {
  const char* key;
  const char* value;
  const char* found;
  const char* allowed;
};

TEST(ConfigLoad, ReportsFoundAndAllowedValues) {
  const char* const layers = "an integer from 1 to 10000";
  const char* const below_one = "a number from 0.0 to below 1.0";
  const char* const truth = "true or false";
  const char* const tokenizers =
      "one of: byte, wordpiece:path/to/vocab.txt, wordpiece-cased:path/to/vocab.txt, "
      "bpe:path/to/folder, huggingface:path/to/tokenizer.json, tessera:path/to/tokenizer.json, "
      "sentencepiece:path/to/file.model, none";
  const char* const blend =
      "text, or a map of text to weights, each a number from 1.0e-9 to 1.0e+9";
  const char* const pair = "a list of two, each a number from 0.0 to below 1.0";
  const WrongValue cases[] = {
      {"model.num_layers", "0", "0", layers},
      {"model.num_layers", "-3", "-3", layers},
      {"model.num_layers", "10001", "10001", layers},
      {"model.num_layers", "99999999999999999999", "99999999999999999999", layers},
      {"model.num_layers", "4.0", "4.0", layers},
      {"model.num_layers", "1_0", "1_0", layers},
      {"model.num_layers", "0x10", "0x10", layers},
      {"model.num_layers", "010", "010", layers},
      {"model.num_layers", "yes", "yes", layers},
      {"model.num_layers", "\"4\"", "the quoted text \"4\"", layers},
      {"model.num_layers", "[4]", "a list of 1", layers},
      {"model.num_layers", "{a: 4}", "a map", layers},
      {"model.num_layers", "null", "empty", layers},
      {"model.num_layers", "", "empty", layers},
      {"model.dropout", "1", "1", below_one},
      {"model.dropout", "-0.1", "-0.1", below_one},
      {"model.dropout", ".nan", ".nan", below_one},
      {"model.dropout", "nan", "nan", below_one},
      {"model.dropout", ".inf", ".inf", below_one},
      {"model.dropout", "1e999", "1e999", below_one},
      {"model.dropout", "'0.1'", "the quoted text \"0.1\"", below_one},
      {"model.dropout", "false", "false", below_one},
      {"model.gated_mlp", "yes", "yes", truth},
      {"model.gated_mlp", "1", "1", truth},
      {"model.gated_mlp", "True", "True", truth},
      {"model.gated_mlp", "'true'", "the quoted text \"true\"", truth},
      {"model.kind", "umt5", "umt5",
       "one of: gpt2, llama, mistral, qwen2, qwen3, bert, roberta, modernbert, encoder_decoder, "
       "t5, vit"},
      {"run.device", "GPU", "GPU", "one of: auto, cpu, cuda"},
      {"run.precision", "fp16", "fp16", "one of: fp32, bf16, fp8"},
      {"data.tokenizer", "[byte]", "a list of 1", tokenizers},
      {"data.tokenizer", "wordpiece", "wordpiece", tokenizers},
      {"data.tokenizer", "vocab.txt", "vocab.txt", tokenizers},
      {"run.dir", "[a]", "a list of 1", "text"},
      {"run.dir", "\"\"", "the quoted text \"\"",
       "text of at least one character, without control characters"},
      {"run.dir", "\"a\\0b\"", "the quoted text \"a\\x00b\"",
       "text of at least one character, without control characters"},
      {"data.train", "~", "empty", blend},
      {"data.eval", "[]", "a list of 0", blend},
      {"optimizer.betas", "0.9", "0.9", pair},
      {"optimizer.betas", "[0.9]", "a list of 1", pair},
      {"optimizer.betas", "[0.9, 0.9, 0.9]", "a list of 3", pair},
      {"optimizer.betas", "[0.9, 1.0]", "1.0", below_one},
      {"optimizer.betas", "[[0.9], 0.5]", "a list of 1", below_one},
      {"optimizer.eps", "0", "0", "a number from 1.0e-30 to 1.0"},
  };
  for (const WrongValue& wrong : cases) {
    const std::string set = std::string(wrong.key) + "=" + wrong.value;
    EXPECT_EQ(set_error(set), fmt::format("--set {}: {} is {}, but must be {}", set, wrong.key,
                                          wrong.found, wrong.allowed));
  }
}

TEST(ConfigLoad, NamesUnreadableFiles) {
  const auto file_error = [](const char* path) { return error_of([&] { load_config(path); }); };
  EXPECT_THAT(file_error("no/such.yaml"), AllOf(HasSubstr("no/such.yaml"), HasSubstr("No such")));
  EXPECT_THAT(file_error("/"), HasSubstr("is a directory"));
  EXPECT_THAT(file_error("/dev/null"), HasSubstr("/dev/null: the configuration is empty"));
  EXPECT_THAT(file_error("/dev/zero"), HasSubstr("more than 65536 bytes"));
}

TEST(Load, ReadsDurations) {
  const auto walltime = [](const std::string& text) {
    return parse_config("x.yaml", kMinimal, std::vector<std::string>{"run.walltime=" + text})
        .run.walltime;
  };
  EXPECT_EQ(walltime("90"), 90);
  EXPECT_EQ(walltime("1:30:00"), 5400);
  EXPECT_EQ(walltime("100:00:01"), 360'001);
  for (const char* text : {"-1", "1:30", "0:60:00", "1h", "\"90\"", "9999999999"}) {
    EXPECT_THROW(walltime(text), Error) << text;
  }
  EXPECT_TRUE(parse_config("x.yaml", kMinimal).automatic.contains("run.walltime"));
}

}  // namespace
}  // namespace tessera
