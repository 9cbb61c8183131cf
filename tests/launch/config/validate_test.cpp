#include "launch/config/validate.h"

#include <limits>
#include <string>
#include <vector>

#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RunConfig config_with(const std::vector<std::string>& sets) {
  std::vector<std::string> all = {"model.hidden_size=64", "model.num_heads=16"};
  all.insert(all.end(), sets.begin(), sets.end());
  return parse_config("x.yaml", kMinimal, all);
}

std::string validate_error(const std::vector<std::string>& sets, int world_size) {
  return error_of([&] { validate(config_with(sets), world_size); });
}

TEST(ConfigValidate, AcceptsValidLayouts) {
  for (const int world_size : {1, 2, 4}) EXPECT_NO_THROW(validate(config_with({}), world_size));
  EXPECT_NO_THROW(validate(config_with({"parallel.tensor=4"}), 8));
  EXPECT_NO_THROW(validate(config_with({"parallel.tensor=16"}), 64));
  EXPECT_NO_THROW(validate(config_with({"model.mlp_size=100", "parallel.tensor=2"}), 2));
}

TEST(ConfigValidate, TensorRanksMustDivideRanks) {
  EXPECT_EQ(validate_error({"parallel.tensor=3"}, 4),
            "parallel.tensor is 3, but the run has 4 ranks: each replica of the model takes 3 "
            "ranks, so choose a divisor of 4 (1, 2, 4), or start a multiple of 3 ranks");
  EXPECT_THAT(validate_error({"parallel.tensor=2"}, 1), HasSubstr("has 1 rank: "));
}

TEST(ConfigValidate, TensorRanksMayHaveUnequalHeadsButEachHasSome) {
  EXPECT_NO_THROW(
      validate(config_with({"parallel.tensor=3", "model.mlp_size=100", "batch.global=8"}), 3));
  EXPECT_EQ(validate_error({"parallel.tensor=17"}, 17),
            "parallel.tensor is 17, but model.num_heads is 16: more tensor ranks than heads would "
            "leave ranks without attention, so choose at most 16");
}

TEST(ConfigValidate, NcclNeedsGpus) {
  EXPECT_EQ(validate_error({"parallel.backend=nccl", "run.device=cpu"}, 1),
            "parallel.backend is nccl, but run.device is cpu: NCCL connects GPUs, so choose auto "
            "or mpi as parallel.backend, or cuda as run.device");
  EXPECT_NO_THROW(validate(config_with({"parallel.backend=nccl", "run.device=auto"}), 1));
  EXPECT_NO_THROW(validate(config_with({"parallel.backend=mpi", "run.device=cpu"}), 1));
}

TEST(ConfigValidate, OptimizersHaveKeysOfTheirOwn) {
  EXPECT_EQ(
      validate_error({"optimizer.momentum=0.9"}, 1),
      "optimizer.momentum is set, but optimizer.name is not muon: it would have no effect, so "
      "leave it out");
  EXPECT_THAT(validate_error({"optimizer.name=lion", "optimizer.nesterov=false"}, 1),
              testing::HasSubstr("optimizer.nesterov is set, but optimizer.name is not muon"));
  EXPECT_THAT(validate_error({"optimizer.ns_steps=4"}, 1),
              testing::HasSubstr("optimizer.ns_steps is set"));
  EXPECT_THAT(validate_error({"optimizer.name=lion", "optimizer.eps=1e-6"}, 1),
              testing::HasSubstr("optimizer.eps is set, but optimizer.name is lion"));
  EXPECT_NO_THROW(validate(config_with({"optimizer.name=muon", "optimizer.momentum=0.9",
                                        "optimizer.eps=1e-6", "optimizer.nesterov=false"}),
                           1));
  EXPECT_NO_THROW(validate(config_with({"optimizer.name=lion"}), 1));
}

TEST(ConfigValidate, LogsOnlyWhatThereIs) {
  EXPECT_THAT(validate_error({"log.histogram_interval=5"}, 1),
              HasSubstr("log.histogram_interval is 5, but log.tensorboard is false"));
  EXPECT_NO_THROW(validate(config_with({"log.histogram_interval=5", "log.tensorboard=true"}), 1));
  EXPECT_THAT(validate_error({"log.timeline_skip=5"}, 1),
              HasSubstr("log.timeline_skip is set, but log.timeline_steps is 0"));
  EXPECT_NO_THROW(validate(config_with({"log.timeline_skip=5", "log.timeline_steps=1"}), 1));
  EXPECT_THAT(validate_error({"log.attention_interval=5"}, 1),
              HasSubstr("log.attention_interval is 5, but there is no held-out text"));
  EXPECT_NO_THROW(validate(config_with({"log.attention_interval=5", "data.eval_fraction=0.1"}), 1));
  EXPECT_THAT(validate_error({"log.noise_scale_interval=5", "batch.global=4", "batch.micro=4"}, 1),
              AllOf(HasSubstr("log.noise_scale_interval is 5, but a step has a single micro-batch"),
                    HasSubstr("or a smaller batch.micro")));
  EXPECT_THAT(validate_error({"log.noise_scale_interval=5", "batch.global=1", "batch.micro=1"}, 1),
              HasSubstr("choose a larger batch.global, or set it to 0"));
  EXPECT_NO_THROW(
      validate(config_with({"log.noise_scale_interval=5", "batch.global=4", "batch.micro=2"}), 2));
  EXPECT_THAT(
      validate_error({"log.noise_scale_interval=5", "model.kind=bert", "model.head=embedding"}, 1),
      HasSubstr("log.noise_scale_interval is 5, but model.head is embedding"));
}

TEST(ConfigValidate, StochasticRoundingNeedsBf16) {
  EXPECT_EQ(
      validate_error({"optimizer.stochastic_rounding=true"}, 1),
      "optimizer.stochastic_rounding is true, but run.precision is fp32, in which the optimizer "
      "rounds no weights: choose false, or bf16 as run.precision");
  EXPECT_NO_THROW(
      validate(config_with({"optimizer.stochastic_rounding=true", "run.precision=bf16"}), 1));
}

TEST(ConfigValidate, AdaptersNeedWeightsToStartFrom) {
  EXPECT_THAT(validate_error({"model.lora_rank=8"}, 1),
              AllOf(HasSubstr("model.lora_rank is 8, but checkpoint.from is null"),
                    HasSubstr("random and frozen")));
  EXPECT_NO_THROW(validate(config_with({"model.lora_rank=8", "checkpoint.from=base"}), 1));
  EXPECT_THAT(validate_error({"optimizer.trained=[\"head.*\"]"}, 1),
              HasSubstr("optimizer.trained is set, but model.lora_rank is 0"));
  EXPECT_THAT(validate_error({"model.lora_alpha=8"}, 1),
              HasSubstr("model.lora_alpha is set, but model.lora_rank is 0"));
  EXPECT_THAT(validate_error({"model.lora_dropout=0.1"}, 1),
              HasSubstr("model.lora_dropout is set, but model.lora_rank is 0"));
  EXPECT_THAT(validate_error({"model.lora_targets=[\"*.mlp.*\"]"}, 1),
              HasSubstr("model.lora_targets is set, but model.lora_rank is 0"));
}

TEST(ConfigValidate, ReadsPatterns) {
  const RunConfig config = config_with(
      {"optimizer.lr_scales={\"blocks.[0-3].*\": 0.5, \"*\": 2}", "optimizer.frozen=[\"a.*\", b]"});
  const std::vector<std::pair<std::string, double>> scales = {{"blocks.[0-3].*", 0.5}, {"*", 2.0}};
  EXPECT_EQ(config.optimizer.lr_scales, scales) << "in their order: the last one counts";
  EXPECT_EQ(config.optimizer.frozen, (std::vector<std::string>{"a.*", "b"}));
  EXPECT_EQ(config_with({"optimizer.frozen=[]"}).optimizer.frozen.size(), 0u);
  const auto error = [](const char* set) { return error_of([&] { config_with({set}); }); };
  EXPECT_THAT(error("optimizer.lr_scales={\"*\": -1}"), HasSubstr("has '*', which is -1"));
  EXPECT_THAT(error("optimizer.lr_scales=2"), HasSubstr("must be a map of patterns"));
}

TEST(ConfigValidate, Fp8NeedsWholeBlocksOfFeatures) {
  const auto with = [](std::vector<std::string> sets) {
    for (const char* set : {"run.precision=fp8", "model.num_layers=4", "model.hidden_size=768",
                            "model.num_heads=12", "model.mlp_size=3072"}) {
      sets.insert(sets.begin(), set);
    }
    return sets;
  };
  for (const int64_t tensor : {1, 2, 3, 6}) {
    const auto sets = with({fmt::format("parallel.tensor={}", tensor)});
    EXPECT_NO_THROW(validate(config_with(sets), static_cast<int>(tensor)));
  }
  const auto facts = [&](const std::vector<std::string>& sets, int world_size,
                         std::initializer_list<const char*> expected) {
    test::expect_error([&] { validate(config_with(with(sets)), world_size); }, expected);
  };
  facts({"parallel.tensor=4"}, 4, {"tensor rank 0", "192 features of the heads", "1.50 × 128"});
  facts({"model.mlp_size=1200"}, 1, {"1200 features of the MLP", "9.38 × 128"});
  facts({"model.num_kv_heads=4", "parallel.tensor=4"}, 4, {"192 features of the heads"});
  facts({"model.num_heads=6", "model.num_kv_heads=3", "model.head_dim=128", "parallel.tensor=3",
         "model.mlp_size=3000"},
        3, {"1000 features of the MLP"});
  facts({"model.hidden_size=1600", "model.num_heads=25"}, 1, {"model.hidden_size is 1600"});
  facts({"model.num_layers=2"}, 1, {"model.num_layers is 2"});
  facts({"model.lora_rank=8"}, 1, {"model.lora_rank is 8"});
  facts({"run.tf32=true"}, 1, {"run.tf32", "run.precision is fp8"});
}

TEST(ConfigValidate, Tf32NeedsFp32OnGpus) {
  EXPECT_EQ(validate_error({"run.tf32=true", "run.precision=bf16"}, 1),
            "run.tf32 is true, but run.precision is bf16, which has no fp32 products: choose "
            "false, or fp32 as run.precision");
  EXPECT_NE(validate_error({"run.product_algorithms=timed", "run.device=cpu"}, 1), "");
  EXPECT_EQ(validate_error({"run.tf32=true", "run.device=cpu"}, 1),
            "run.tf32 is true, but run.device is cpu, and only GPUs have TF32: choose false, or "
            "auto or cuda as run.device");
  for (const char* device : {"run.device=auto", "run.device=cuda"}) {
    EXPECT_NO_THROW(validate(config_with({"run.tf32=true", device}), 1));
  }
}

TEST(ConfigValidate, CudnnDropoutNeedsBf16OnGpus) {
  EXPECT_EQ(validate_error({"train.cudnn_dropout=true"}, 1),
            "train.cudnn_dropout is true, but run.precision is fp32, and cuDNN's attention "
            "supports only bf16: choose false, or bf16 as run.precision");
  EXPECT_EQ(validate_error({"train.cudnn_dropout=true", "run.precision=bf16", "run.device=cpu"}, 1),
            "train.cudnn_dropout is true, but run.device is cpu, and cuDNN runs only on GPUs: "
            "choose false, or auto or cuda as run.device");
  for (const char* device : {"run.device=auto", "run.device=cuda"}) {
    EXPECT_NO_THROW(
        validate(config_with({"train.cudnn_dropout=true", "run.precision=bf16", device}), 1));
  }
}

TEST(ConfigValidate, AttentionDropoutHasStepsOfOne256th) {
  for (const char* probability : {"0.001", "0.999"}) {
    EXPECT_EQ(validate_error({std::string("model.attention_dropout=") + probability}, 1),
              std::string("model.attention_dropout is ") + probability +
                  ", but weights are dropped by 8 random bits each, so the probability is rounded "
                  "to a multiple of 1/256: choose 0 or a number from 0.002 to 0.998");
  }
  for (const char* probability : {"0.0", "0.002", "0.998"}) {
    EXPECT_NO_THROW(
        validate(config_with({std::string("model.attention_dropout=") + probability}), 1));
  }
}

TEST(ConfigValidate, RejectsUnknownZeroStage) {
  for (const int world_size : {1, 2, 4}) {
    EXPECT_NO_THROW(validate(config_with({"parallel.zero=1"}), world_size));
  }
  RunConfig config = config_with({});
  config.parallel.zero = 4;
  EXPECT_THAT(error_of([&] { validate(config, 4); }), HasSubstr("parallel.zero is 4, but must be"));
}

TEST(ConfigValidate, ShardsNeedReplicasThatShareThem) {
  for (const char* shard : {"0", "1", "2", "4"}) {
    const std::string key = std::string("parallel.shard=") + shard;
    const bool shares = std::string_view(shard) != "1";
    for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
      SCOPED_TRACE(key + " " + zero);
      if (shares || std::string_view(zero).ends_with("1")) {
        EXPECT_NO_THROW(validate(config_with({key, zero}), 4));
      } else {
        EXPECT_THAT(validate_error({key, zero}, 4), HasSubstr("leave no ranks that share"));
      }
    }
  }
  EXPECT_THAT(validate_error({"parallel.zero=3"}, 1),
              HasSubstr("parallel.zero is 3, but 1 rank / parallel.tensor 1"));
  EXPECT_THAT(validate_error({"parallel.zero=3", "parallel.tensor=2", "parallel.shard=3"}, 4),
              HasSubstr("parallel.shard is 3, but 4 ranks are 2 replicas of the model: choose a "
                        "divisor of 2 (1, 2)"));
  EXPECT_THAT(validate_error({"parallel.shard=2"}, 4), HasSubstr("parallel.zero is 0"));
}

TEST(ConfigValidate, GradReduceDtypeNeedsDataRanks) {
  EXPECT_EQ(validate_error({"parallel.grad_reduce_dtype=bf16", "parallel.tensor=4"}, 4),
            "parallel.grad_reduce_dtype is bf16, but there is one data rank (4 ranks / "
            "parallel.tensor = 4), which has no gradients to reduce: choose fp32, or a smaller "
            "parallel.tensor, or start more ranks");
  EXPECT_THAT(validate_error({"parallel.grad_reduce_dtype=bf16"}, 1),
              HasSubstr("one data rank (1 rank / parallel.tensor = 1)"));
  EXPECT_NO_THROW(
      validate(config_with({"parallel.grad_reduce_dtype=bf16", "parallel.tensor=2"}), 4));
}

TEST(ConfigValidate, HeadsMustDivideHiddenSize) {
  EXPECT_EQ(validate_error({"model.hidden_size=100", "model.num_heads=8"}, 1),
            "model.hidden_size is 100, but model.num_heads is 8: each head has hidden_size / "
            "num_heads columns, so choose a multiple of 8 (96 or 104) as hidden_size, a divisor "
            "of 100 (1, 2, 4, 5, 10, 20, 25, 50, 100) as num_heads, or "
            "give model.head_dim");
  EXPECT_THAT(validate_error({"model.hidden_size=5", "model.num_heads=8"}, 1),
              HasSubstr("a multiple of 8 (8) as hidden_size"));
  EXPECT_THAT(validate_error({"model.hidden_size=5040", "model.num_heads=11"}, 1),
              HasSubstr("(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, ...)"));
}

TEST(ConfigValidate, GlobalBatchMustBeWholeMicroBatches) {
  EXPECT_EQ(
      validate_error({"batch.global=12", "batch.micro=6", "parallel.tensor=2"}, 8),
      "batch.global is 12, but batch.micro × data ranks = 6 × 4 = 24 (8 ranks / "
      "parallel.tensor = 2): every data rank computes the same number of "
      "micro-batches, so choose a multiple of 24 (24) as batch.global, or a divisor of 12 / 4 "
      "= 3 (1, 3) as batch.micro");
  EXPECT_THAT(validate_error({"batch.global=16", "batch.micro=2"}, 3),
              testing::EndsWith("so choose a multiple of 6 (12 or 18) as batch.global"));
}

TEST(ConfigValidate, RejectsInvalidSchedule) {
  EXPECT_THAT(validate_error({"optimizer.lr=0.001", "optimizer.min_lr=0.01"}, 1),
              AllOf(HasSubstr("optimizer.min_lr is 0.01, but optimizer.lr is 0.001"),
                    HasSubstr("choose a min_lr from 0 to 0.001")));
  EXPECT_THAT(validate_error({"optimizer.warmup_steps=11"}, 1),
              AllOf(HasSubstr("warmup_steps is 11, but train.steps is 10"),
                    HasSubstr("at most 10 warmup steps")));
  EXPECT_NO_THROW(validate(config_with({"optimizer.warmup_steps=10"}), 1));
  EXPECT_THAT(validate_error({"optimizer.decay_steps=3"}, 1),
              HasSubstr("decay_steps is set, but optimizer.schedule is not warmup_stable_decay"));
  EXPECT_THAT(validate_error({"optimizer.power=2"}, 1),
              HasSubstr("optimizer.power is set, but optimizer.schedule is not polynomial"));
  EXPECT_THAT(validate_error({"optimizer.schedule=warmup_stable_decay", "optimizer.warmup_steps=8",
                              "optimizer.decay_steps=3"},
                             1),
              HasSubstr("8 and 3, but train.steps is 10"));
}

TEST(ConfigValidate, SpikesAndRollbacksHaveRules) {
  EXPECT_THAT(
      validate_error({"train.spike_factor=0.5"}, 1),
      HasSubstr("train.spike_factor is 0.5, but below 1 half of all steps would be spikes"));
  EXPECT_THAT(validate_error({"train.spike_window=5"}, 1),
              HasSubstr("train.spike_window is set, but train.spike_factor is 0"));
  EXPECT_THAT(validate_error({"train.max_rollbacks=2", "checkpoint.interval=0"}, 1),
              HasSubstr("train.max_rollbacks is 2, but checkpoint.interval is 0"));
  EXPECT_NO_THROW(validate(config_with({"train.spike_factor=1", "train.spike_window=5",
                                        "train.max_rollbacks=2", "checkpoint.interval=5"}),
                           1));
}

TEST(ConfigValidate, BestCheckpointsNeedEvaluationsOfCheckpoints) {
  EXPECT_THAT(validate_error({"eval.patience=3"}, 1),
              HasSubstr("eval.patience is 3, but eval.interval is 0"));
  EXPECT_THAT(validate_error({"eval.multiple_choice=[a.jsonl, b.jsonl]"}, 1),
              HasSubstr("eval.multiple_choice is [\"a.jsonl\", \"b.jsonl\"], but eval.interval is "
                        "0"));
  EXPECT_NO_THROW(validate(config_with({"eval.multiple_choice=[]"}), 1));
  EXPECT_THAT(validate_error({"checkpoint.keep_best=true"}, 1),
              HasSubstr("checkpoint.keep_best is true, but checkpoint.keep is 0"));
  EXPECT_THAT(validate_error({"checkpoint.from_state=true"}, 1),
              HasSubstr("checkpoint.from_state is true, but checkpoint.from is null"));
  const auto with_intervals = [](const char* evaluation, const char* checkpoint) {
    return std::vector<std::string>{"checkpoint.keep_best=true", "checkpoint.keep=2",
                                    "data.eval=runs/e", std::string("eval.interval=") + evaluation,
                                    std::string("checkpoint.interval=") + checkpoint};
  };
  for (const auto& [evaluation, checkpoint] :
       {std::pair{"5", "0"}, {"0", "5"}, {"5", "10"}, {"5", "auto"}}) {
    EXPECT_THAT(validate_error(with_intervals(evaluation, checkpoint), 1),
                HasSubstr(fmt::format("eval.interval is {} and checkpoint.interval is {}: "
                                      "evaluations need a checkpoint each",
                                      evaluation, checkpoint)));
  }
  EXPECT_NO_THROW(validate(config_with(with_intervals("10", "5")), 1));
}

TEST(ConfigValidate, SamplesNeedPromptsAndAModelThatWrites) {
  EXPECT_THAT(validate_error({"eval.prompts=[a, b]"}, 1),
              HasSubstr("eval.prompts has 2 texts, but eval.sample_interval is 0"));
  EXPECT_THAT(validate_error({"eval.sample_interval=5"}, 1),
              HasSubstr("eval.sample_interval is 5, but eval.prompts has no text"));
  EXPECT_THAT(validate_error({"eval.sample_tokens=5"}, 1),
              HasSubstr("eval.sample_tokens is set, but eval.prompts is empty"));
  EXPECT_THAT(validate_error({"eval.sample_temperature=0"}, 1),
              HasSubstr("eval.sample_temperature is set, but eval.prompts is empty"));
  std::vector<std::string> with = {"eval.prompts=[\"\", \"a\\n\\t\"]", "eval.sample_interval=5",
                                   "eval.sample_tokens=5", "eval.sample_temperature=0"};
  const RunConfig config = config_with(with);
  EXPECT_EQ(config.eval.prompts, (std::vector<std::string>{"", "a\n\t"}));
  EXPECT_NO_THROW(validate(config, 1));
  EXPECT_THAT(config_with({"eval.prompts=[]"}).eval.prompts, testing::IsEmpty());
  with.emplace_back("data.tokenizer=none");
  EXPECT_THAT(validate_error(with, 1),
              HasSubstr("eval.prompts has texts, but data.tokenizer is none"));
  with.back() = "model.kind=bert";
  EXPECT_THAT(validate_error(with, 1),
              HasSubstr("eval.prompts has texts to continue, but model.kind is bert and model.head "
                        "is pretraining"));
  with.back() = "model.kind=encoder_decoder";
  EXPECT_NO_THROW(validate(config_with(with), 1));
  EXPECT_THAT(set_error("eval.prompts=[\"a\\x1b\"]"),
              HasSubstr("text without control characters other than line ends and tabs"));
}

TEST(ConfigValidate, EvaluationNeedsOneSource) {
  EXPECT_THAT(validate_error({"eval.interval=5"}, 1),
              HasSubstr("eval.interval is 5, but there is no evaluation data: set data.eval"));
  EXPECT_THAT(validate_error({"data.eval=runs/e", "data.eval_fraction=0.1"}, 1),
              HasSubstr("data.eval is \"runs/e\" and data.eval_fraction is 0.1"));
  EXPECT_NO_THROW(validate(config_with({"eval.interval=5", "data.eval=runs/e"}), 1));
  EXPECT_NO_THROW(validate(config_with({"eval.interval=5", "data.eval_fraction=0.1"}), 1));
}

TEST(ConfigValidate, VocabularyMustHoldTokens) {
  EXPECT_EQ(validate_error({"data.tokenizer=byte", "model.vocab_size=256"}, 1),
            "model.vocab_size is 256, but data.tokenizer is byte, which has 257 tokens: choose 257 "
            "or more, or leave the key out");
  EXPECT_NO_THROW(validate(config_with({"model.vocab_size=257"}), 1));
}

TEST(ConfigValidate, RejectsTokenCountOverflow) {
  EXPECT_THAT(
      validate_error(
          {"train.steps=1000000000", "batch.global=100000000", "model.seq_length=10000000"}, 1),
      HasSubstr("1000000000 × 100000000 × 10000000 tokens"));
}

TEST(ConfigValidate, ValidatesValuesSetInCode) {
  RunConfig config = config_with({});
  config.model.num_heads = 0;
  EXPECT_EQ(error_of([&] { validate(config, 1); }),
            "model.num_heads is 0, but must be an integer from 1 to 1000000");
  config = config_with({});
  config.optimizer.lr = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([&] { validate(config, 1); }), HasSubstr("optimizer.lr is nan, but must"));
  config = config_with({});
  config.run.precision = DType::i64;
  EXPECT_THAT(error_of([&] { validate(config, 1); }), HasSubstr("run.precision"));
  EXPECT_THAT(error_of([&] { validate(RunConfig(), 1); }), HasSubstr("run.dir"));
  EXPECT_THAT(error_of([&] { validate(config_with({}), 0); }), HasSubstr("at least 1 rank"));
}

}  // namespace
}  // namespace tessera
