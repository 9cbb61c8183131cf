#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/run_state.h"
#include "launch/data/training_data.h"
#include "launch/tools/plan/dry_step.h"
#include "launch/tools/plan/run_plan.h"
#include "launch/train/start/derive_config.h"
#include "launch/train/start/start.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/layers/low_rank_adapter.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::small_run;
using test::SmallKind;

class FineTune : public testing::Test {
 protected:
  FineTune() { test::write_small_data(folder_); }

  /// A run that starts with the weights of run `from`, unless `from` is empty.
  RunConfig config(SmallKind kind, const std::string& run, const std::string& from = "") const {
    RunConfig config = small_run(folder_, run, kind);
    if (!from.empty()) config.checkpoint.from = folder_ / from;
    return config;
  }

  /// Starts or resumes the run and calls `use(trainer, sentence)` on each rank. `sentence`
  /// describes the start.
  template <typename Use>
  void start(RunConfig run, int tensor, Use&& use) const {
    run.parallel.tensor = tensor;
    run_thread_ranks(tensor, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run));
      use(trainer, start_or_resume(run, trainer, world, [](const std::string&) {}));
    });
  }

  /// Trains for 3 steps and saves. Returns the checkpoint.
  fs::path train_and_save(const RunConfig& run) const {
    fs::path path;
    start(run, 1, [&](Trainer& trainer, const std::string&) {
      for (int i = 0; i < 3; ++i) trainer.step();
      path = trainer.save().path;
    });
    return path;
  }

  /// Expects that starting `run` fails with an error that contains all `facts`.
  void expect_refused(const RunConfig& run, std::initializer_list<const char*> facts) const {
    expect_error([&] { start(run, 1, [](Trainer&, const std::string&) {}); }, facts);
  }

  test::TestFolder folder_;
};

bool is_new(const Parameter& parameter) { return parameter.name.rfind("classifier.", 0) == 0; }

/// Returns whether the part of a parameter that this rank keeps equals the checkpoint's.
bool is_stored(Checkpoint& checkpoint, const Trainer& trainer, const Parameter& parameter) {
  const OwnedTensor stored(parameter.real_shape(), DType::f32);
  checkpoint.read(parameter.name, parameter.global_shape, parameter.shard, stored.tensor);
  const OptimizerShard& own = trainer.optimizer_state().of(parameter);
  const Tensor part =
      stored.tensor.view({stored.tensor.numel()}).slice(own.elements.begin, own.elements.end);
  return std::memcmp(part.raw(), own.master.raw(), part.bytes()) == 0;
}

TEST_F(FineTune, ClassifierStartsWithPretrainedBody) {
  const fs::path from = train_and_save(config(SmallKind::bert_pairs, "pretrained"));
  for (const int tensor : {1, 2, 4}) {
    const RunConfig run = config(SmallKind::classifier, "run", "pretrained");
    start(run, tensor, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence, fmt::format("started with the weights of {}; new: classifier.weight, "
                                      "classifier.bias; left out: head.bias, head.norm.bias, "
                                      "head.norm.weight, head.transform.bias, "
                                      "head.transform.weight, next_sentence.bias, "
                                      "next_sentence.weight",
                                      from.string()));
      EXPECT_EQ(trainer.steps_done(), 0);
      EXPECT_EQ(trainer.run().tokens, 0);
      Checkpoint checkpoint = Checkpoint::open(from);
      bool has_pooler = false;
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        if (is_new(parameter)) continue;
        EXPECT_TRUE(is_stored(checkpoint, trainer, parameter)) << parameter.name;
        has_pooler |= parameter.name == "pooler.weight";
      }
      EXPECT_TRUE(has_pooler);
    });
  }
}

TEST_F(FineTune, InitializesNewParametersAsInNewModel) {
  train_and_save(config(SmallKind::bert_packed, "pretrained"));  // without a pooler
  const RunConfig run = config(SmallKind::classifier, "run", "pretrained");
  std::map<std::string, std::vector<float>> initial;
  const auto heads = [](const Trainer& trainer) {
    std::map<std::string, std::vector<float>> found;
    for (const Parameter& parameter : trainer.parameters().parameters()) {
      if (!is_new(parameter) && parameter.name.rfind("pooler.", 0) != 0) continue;
      const auto values = trainer.optimizer_state().of(parameter).master.span<float>();
      found[parameter.name] = {values.begin(), values.end()};
    }
    return found;
  };
  start(config(SmallKind::classifier, "new"), 1,
        [&](Trainer& trainer, const std::string&) { initial = heads(trainer); });
  start(run, 1, [&](Trainer& trainer, const std::string& sentence) {
    EXPECT_NE(sentence.find("new: pooler.weight, pooler.bias, classifier.weight, classifier.bias;"),
              std::string::npos)
        << sentence;
    EXPECT_EQ(heads(trainer), initial);
    EXPECT_EQ(initial.size(), 4u);
  });
}

TEST_F(FineTune, LoadsAllWeightsOfSameModel) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs, SmallKind::classifier}) {
    const std::string from = "from_" + to_string(kind);
    const fs::path path = train_and_save(config(kind, from));
    start(config(kind, "run", from), 2, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence, "started with the weights of " + path.string());
      Checkpoint checkpoint = Checkpoint::open(path);
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        EXPECT_TRUE(is_stored(checkpoint, trainer, parameter)) << parameter.name;
      }
    });
  }
}

/// The bits of a parameter's weights on this rank.
std::vector<float> weights_of(const Trainer& trainer, const Parameter& parameter) {
  const auto values = trainer.optimizer_state().of(parameter).master.span<float>();
  return {values.begin(), values.end()};
}

// In bf16 the base's fp32 weights survive, although the model computes with rounded ones.
TEST_F(FineTune, AdaptersLeaveBaseAsItIs) {
  const fs::path from = train_and_save(config(SmallKind::qwen3, "base"));
  for (const DType precision : {DType::f32, DType::bf16}) {
    RunConfig run = config(SmallKind::adapters, "run_" + std::string(to_string(precision)), "base");
    run.run.precision = precision;
    std::map<std::string, std::vector<float>> trained;
    start(run, 2, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence,
                "started with the weights of " + from.string() + "; new: 8 low-rank adapters");
      for (int i = 0; i < 3; ++i) trainer.step();
      trainer.save();
    });
    start(run, 1, [&](Trainer& trainer, const std::string&) {
      EXPECT_EQ(trainer.steps_done(), 3);
      Checkpoint checkpoint = Checkpoint::open(from);
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        if (parameter.frozen) {
          EXPECT_TRUE(is_stored(checkpoint, trainer, parameter)) << parameter.name;
          EXPECT_THROW((void)parameter.grad(), Error);
          continue;
        }
        EXPECT_TRUE(is_of_low_rank_adapter(parameter.name)) << parameter.name;
        trained[parameter.name] = weights_of(trainer, parameter);
        EXPECT_TRUE(std::ranges::any_of(trained[parameter.name], [](float x) { return x != 0.0f; }))
            << parameter.name << " has not moved";
      }
      EXPECT_EQ(trained.size(), 16u);
    });
    // Another fine-tuning may start from the adapters and goes on with them.
    RunConfig more = run;
    more.run.dir = run.run.dir + "_more";
    more.checkpoint.from = run.run.dir;
    more.model.lora_dropout = 0.5;
    start(more, 1, [&](Trainer& trainer, const std::string&) {
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        if (parameter.frozen) continue;
        EXPECT_EQ(weights_of(trainer, parameter), trained.at(parameter.name)) << parameter.name;
      }
    });
    more.optimizer.trained = {"head.*", "embedding.word"};
    start(more, 2, [&](Trainer& trainer, const std::string&) {
      const auto& parameters = trainer.parameters().parameters();
      EXPECT_EQ(std::ranges::count_if(parameters, [](const Parameter& p) { return !p.frozen; }),
                18);
      trainer.step();
      const Checkpoint saved = Checkpoint::open(trainer.save().path);
      EXPECT_EQ(read_run_state(saved.manifest()).trained_beside_adapters,
                (std::set<std::string>{"embedding.word", "head.weight"}));
    });
    // They still differ from the base's if training goes on without them.
    RunConfig last = run;
    last.run.dir = run.run.dir + "_last";
    last.checkpoint.from = more.run.dir;
    start(last, 1, [&](Trainer& trainer, const std::string&) {
      const Checkpoint saved = Checkpoint::open(trainer.save().path);
      EXPECT_EQ(read_run_state(saved.manifest()).trained_beside_adapters,
                (std::set<std::string>{"embedding.word", "head.weight"}));
    });
    more.model.lora_rank = 0;
    expect_refused(more, {"is of another model", "model.lora_rank is 3 in the checkpoint and 0"});
  }
}

/// Whether a step has work in the range `name`, as in "blocks.0 backward".
bool has_work_in(const RunConfig& run, const std::string& name) {
  MetaGroups groups(1, {});
  WorkLog work;
  dry_run_step(run, groups, &work);
  return std::ranges::any_of(work.events(), [&](const WorkLog::Event& event) {
    return event.range.find(name) != std::string::npos;
  });
}

size_t activations_of(const RunConfig& run) {
  for (const MemoryPlan::Line& line : plan_run(run, 1).memory.lines) {
    if (line.what == "activations") return line.bytes;
  }
  return 0;
}

// Below the first trained parameter, nothing is kept for a backward pass and none is computed.
TEST_F(FineTune, BackwardPassEndsAtFirstTrainedParameter) {
  struct Case {
    SmallKind kind;
    std::vector<std::string> embeddings;
    std::string lowest;
  };
  for (const Case& each :
       {Case{SmallKind::gpt, {"embedding.*"}, "blocks.0.*"},
        {SmallKind::bert_pairs, {"embedding.*"}, "blocks.0.*"},
        {SmallKind::translation, {"*embedding.*"}, "encoder.blocks.0.*"},
        {SmallKind::translation, {"*embedding.*", "encoder.*"}, "decoder.blocks.0.*"}}) {
    RunConfig whole = config(each.kind, "whole");
    whole.optimizer.frozen = each.embeddings;
    RunConfig part = whole;
    part.optimizer.frozen.push_back(each.lowest);
    SCOPED_TRACE(fmt::format("{}, {} frozen", to_string(each.kind), each.lowest));
    const auto gradients_of = [&](const RunConfig& run) {
      std::map<std::string, std::vector<float>> gradients;
      start(run, 1, [&](Trainer& trainer, const std::string&) {
        trainer.step();
        (void)trainer.result();
        for (const Parameter& parameter : trainer.parameters().parameters()) {
          if (parameter.frozen) continue;
          const auto values = parameter.grad().span<float>();
          gradients[parameter.name] = {values.begin(), values.end()};
        }
      });
      return gradients;
    };
    const auto expected = gradients_of(whole);
    for (const auto& [name, gradient] : gradients_of(part)) {
      EXPECT_EQ(gradient, expected.at(name)) << name;
    }
    const std::string block = each.lowest.substr(0, each.lowest.size() - 2);  // without ".*"
    EXPECT_TRUE(has_work_in(whole, block + " backward"));
    EXPECT_FALSE(has_work_in(part, block + " backward"));
    EXPECT_TRUE(has_work_in(part, block));
    EXPECT_LT(activations_of(part), activations_of(whole));
  }
}

TEST_F(FineTune, KeepsTheChatTemplateOfItsModel) {
  RunConfig base = config(SmallKind::gpt, "base");
  base.data.chat_form = std::make_shared<const ChatForm>(plain_form());
  EXPECT_EQ(*checkpoint_chat(Checkpoint::open(train_and_save(base))), plain_form());
  const RunConfig run = config(SmallKind::gpt, "run", "base");
  run_thread_ranks(2, [&](Communicator& world) {
    const auto derived = derive_config(run, world, [](const std::string&) {}).config.data.chat_form;
    ASSERT_NE(derived, nullptr);
    EXPECT_EQ(*derived, plain_form());
  });
}

TEST_F(FineTune, ResumeNeedsStateOfWhatIsNoLongerFrozen) {
  RunConfig run = config(SmallKind::frozen, "run");
  train_and_save(run);
  run.optimizer.frozen = {};
  expect_refused(run, {"has no optimizer state of embedding.word, which was frozen",
                       "keep the same parameters frozen", "checkpoint.from"});
  run.optimizer.frozen = {"*"};
  expect_refused(run, {"optimizer.frozen has all parameters"});
  run.optimizer.frozen = {"blocks.0.atention.*"};
  expect_refused(run, {"optimizer.frozen has the pattern \"blocks.0.atention.*\", but no parameter",
                       "embedding.word"});
  run.optimizer.frozen = {};
  run.optimizer.lr_scales = {{"blocks.7.*", 2.0}};
  expect_refused(run, {"optimizer.lr_scales has the pattern \"blocks.7.*\""});
  RunConfig adapters = config(SmallKind::adapters, "adapters");
  adapters.model.lora_targets = {"*.attention.qkv", "*.q_proj"};
  expect_refused(adapters,
                 {"model.lora_targets has the pattern \"*.q_proj\"", "blocks.0.mlp.down"});
}

TEST_F(FineTune, RejectsDifferentBody) {
  train_and_save(config(SmallKind::bert_pairs, "pretrained"));
  train_and_save(config(SmallKind::gpt, "gpt"));
  RunConfig run = config(SmallKind::classifier, "run", "pretrained");
  run.model.hidden_size = 64;
  expect_refused(run, {"is of another model", "model.hidden_size is 32 in the checkpoint and 64"});
  run = config(SmallKind::classifier, "run", "pretrained");
  run.model.positions = Positions::rotary;
  expect_refused(run, {"model.positions is \"learned\" in the checkpoint and \"rotary\""});
  expect_refused(config(SmallKind::classifier, "run", "gpt"),
                 {"model.kind is \"gpt2\" in the checkpoint and \"bert\" in this run"});
}

// Imported decoders may be for texts that are far longer than those of the fine-tuning.
TEST_F(FineTune, LengthMayDifferUnlessPositionsAreLearned) {
  for (const SmallKind kind : {SmallKind::qwen3, SmallKind::t5, SmallKind::gpt}) {
    SCOPED_TRACE(to_string(kind));
    const fs::path from = train_and_save(config(kind, "from_" + to_string(kind)));
    RunConfig run = config(kind, "run_" + to_string(kind), "from_" + to_string(kind));
    run.model.seq_length /= 2;
    if (kind == SmallKind::gpt) {
      expect_refused(run, {"is of another model", "model.seq_length is",
                           "without learned positions, its seq_length"});
      continue;
    }
    start(run, 2, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence, "started with the weights of " + from.string());
      Checkpoint checkpoint = Checkpoint::open(from);
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        EXPECT_TRUE(is_stored(checkpoint, trainer, parameter)) << parameter.name;
      }
      trainer.step();
      EXPECT_EQ(trainer.result().padded_tokens, run.batch.global * run.model.seq_length);
    });
  }
}

TEST_F(FineTune, HeadsAndRotaryFrequenciesMayDiffer) {
  train_and_save(config(SmallKind::bert_pairs, "bert"));
  train_and_save(config(SmallKind::qwen3, "qwen3"));
  const RunConfig embeddings = config(SmallKind::embeddings, "embeddings", "bert");
  ASSERT_TRUE(embeddings.model.hard_negatives && embeddings.model.symmetric_loss);
  RunConfig classifier = config(SmallKind::classifier, "classifier", "bert");
  classifier.model.classifier_pooling = Pooling::mean;
  RunConfig longer = config(SmallKind::qwen3, "longer", "qwen3");
  longer.model.rotary.scaling = RotaryScaling::linear;
  longer.model.rotary.factor *= 2.0;
  longer.model.rotary.base *= 10.0;
  for (const RunConfig& run : {embeddings, classifier, longer}) {
    start(run, 2, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence.find("started with the weights of"), 0u) << sentence;
      trainer.step();
      EXPECT_TRUE(std::isfinite(trainer.result().loss()));
    });
  }
  // A class token is of the body.
  train_and_save(config(SmallKind::images, "images"));
  RunConfig images = config(SmallKind::images, "mean", "images");
  images.model.classifier_pooling = Pooling::mean;
  images.model.seq_length = images.model.image_tokens();
  expect_refused(images, {"model.classifier_pooling is \"cls\" in the checkpoint and \"mean\""});
}

TEST_F(FineTune, ImagesHaveThePoolingOfTheCheckpoint) {
  train_and_save(config(SmallKind::mean_images, "mean"));
  RunConfig run = config(SmallKind::mean_images, "run", "mean");
  const int64_t patches = run.model.num_patches();
  run.automatic = {"model.classifier_pooling", "model.seq_length"};
  run.model.classifier_pooling = Pooling::cls;
  const RunConfig derived = derive_config(run, 1, DeriveFor::training).config;
  EXPECT_EQ(derived.model.classifier_pooling, Pooling::mean);
  EXPECT_EQ(derived.model.seq_length, patches);
}

TEST_F(FineTune, ReinitializesHeadForDifferentLabels) {
  const fs::path path = train_and_save(config(SmallKind::classifier, "three"));
  RunConfig run = config(SmallKind::classifier, "run", "three");
  run.model.num_labels = 4;
  start(run, 2, [&](Trainer& trainer, const std::string& sentence) {
    EXPECT_EQ(sentence, fmt::format("started with the weights of {}; new: classifier.weight, "
                                    "classifier.bias; left out: classifier.bias, classifier.weight",
                                    path.string()));
    Checkpoint checkpoint = Checkpoint::open(path);
    for (const Parameter& parameter : trainer.parameters().parameters()) {
      EXPECT_TRUE(is_new(parameter) || is_stored(checkpoint, trainer, parameter)) << parameter.name;
    }
  });
}

/// A classifier's run with named labels. In the data, labels are numbers.
RunConfig with_labels(RunConfig config, const std::string& labels) {
  config.data.labels = labels;
  return config;
}

TEST_F(FineTune, ReinitializesHeadForReorderedLabels) {
  const fs::path path = train_and_save(with_labels(config(SmallKind::classifier, "from"), "0,1,2"));
  const RunConfig run = config(SmallKind::classifier, "run", "from");
  const std::string kept = "started with the weights of " + path.string();
  const auto expect_sentence = [&](const RunConfig& config, const std::string& expected) {
    start(config, 2, [&](Trainer& trainer, const std::string& sentence) {
      EXPECT_EQ(sentence, expected);
      Checkpoint checkpoint = Checkpoint::open(path);
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        const bool is_reinitialized = expected != kept && is_new(parameter);
        EXPECT_EQ(is_stored(checkpoint, trainer, parameter), !is_reinitialized) << parameter.name;
      }
    });
  };
  expect_sentence(with_labels(run, "0, 1, 2"), kept);
  expect_sentence(run, kept);
  expect_sentence(
      with_labels(run, "0,2,1"),
      kept +
          "; new: classifier.weight, classifier.bias; left out: classifier.bias, "
          "classifier.weight; the checkpoint's labels are \"0,1,2\", and data.labels is "
          "\"0,2,1\"");
}

TEST_F(FineTune, RejectsResumeWithDifferentLabels) {
  const RunConfig run = config(SmallKind::classifier, "run");
  const fs::path path = train_and_save(with_labels(run, "0,1,2"));
  expect_refused(with_labels(run, "1,0,2"),
                 {path.c_str(),
                  "has a classifier for the labels \"0,1,2\", but data.labels is \"1,0,2\": list "
                  "the same labels in the same order"});
  for (const RunConfig& same : {run, with_labels(run, "0, 1, 2")}) {
    start(same, 1,
          [](Trainer& trainer, const std::string&) { EXPECT_EQ(trainer.steps_done(), 3); });
  }
}

TEST_F(FineTune, RejectsMissingAndExtraLayers) {
  const fs::path path = train_and_save(config(SmallKind::bert_pairs, "pretrained"));
  run_thread_ranks(1, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world);
    RunConfig more = config(SmallKind::classifier, "run");
    more.model.num_layers = 3;
    RunConfig fewer = config(SmallKind::classifier, "run");
    fewer.model.num_layers = 1;
    Checkpoint checkpoint = Checkpoint::open(path);
    Trainer larger(more, groups, open_training_data(more));
    expect_error([&] { larger.start_from(checkpoint); }, {"blocks.2."});
    Trainer smaller(fewer, groups, open_training_data(fewer));
    expect_error([&] { smaller.start_from(checkpoint); },
                 {path.c_str(), "blocks.1.", "for which the model has no place"});
  });
}

TEST_F(FineTune, PairsOfTextsNeedTwoTokenTypesOrNone) {
  RunConfig run = config(SmallKind::classifier, "run");
  run.model.token_types = 1;
  expect_error([&] { open_training_data(run); },
               {"texts.tsv has pairs of texts", "model.token_types is 1"});
  run.model.token_types = 0;
  EXPECT_NO_THROW(open_training_data(run));
}

TEST_F(FineTune, RejectsEmptyEvaluationPart) {
  RunConfig run = config(SmallKind::classifier, "run");
  run.data.eval_fraction = 0.001;  // of 200
  expect_error([&] { open_training_data(run); },
               {"texts.tsv: the range of texts [200, 200) is empty"});
}

TEST_F(FineTune, CountsTokensWithoutPaddingAcrossResume) {
  const RunConfig run = config(SmallKind::bert_pairs, "run");
  int64_t tokens = 0;
  start(run, 2, [&](Trainer& trainer, const std::string&) {
    int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      trainer.step();
      const StepResult step = trainer.result();
      EXPECT_EQ(step.padded_tokens, run.batch.global * run.model.seq_length);
      EXPECT_LT(step.tokens, step.padded_tokens);
      sum += step.tokens;
    }
    EXPECT_EQ(trainer.run().tokens, sum);
    trainer.save();
    tokens = sum;
  });
  start(run, 1,
        [&](Trainer& trainer, const std::string&) { EXPECT_EQ(trainer.run().tokens, tokens); });
}

}  // namespace
}  // namespace tessera
