#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "launch/train/optimizer/gradient_clip.h"
#include "launch/train/optimizer/optimizer.h"
#include "models/architecture.h"
#include "models/model.h"
#include "tests/support/golden.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/tensors.h"

// Compares Tessera's BERT with Hugging Face's, as described in tests/parity/README.md. The README
// also explains the tolerances: a small multiple of the deviation of PyTorch's fp32 from its
// float64.

namespace tessera {
namespace {

constexpr int64_t kSteps = 10;
constexpr int64_t kSequences = 4;
constexpr int64_t kSeqLength = 16;

/// The golden sequences in each row, in order.
using Rows = std::vector<std::vector<int64_t>>;

// The results must not depend on the choice of rows.
const Rows kPadded = {{0}, {1}, {2}, {3}};
const Rows kPacked = {{0, 2}, {1}, {3}};  // 11 and 5 real tokens fill a row of 16

/// The golden batch without its padding, and the memory that it refers to.
class GoldenBatch {
 public:
  GoldenBatch(const test::Golden& golden, const Rows& rows, const std::string& labels) {
    const auto real = golden.get<int32_t>("attention_mask");
    const auto tokens = golden.get<int32_t>("input_ids");
    const auto types = golden.get<int32_t>("token_type_ids");
    const auto targets = golden.get<int32_t>("labels");
    const auto golden_labels = golden.get<int32_t>(labels);
    Columns columns;
    for (size_t row = 0; row < rows.size(); ++row) {
      auto padded_row = static_cast<int32_t>(row) * static_cast<int32_t>(kSeqLength);
      for (const int64_t sequence : rows[row]) {
        for (int64_t t = 0; t < kSeqLength; ++t) {
          const auto i = static_cast<size_t>(sequence * kSeqLength + t);
          if (real[i] == 0) continue;
          if (targets[i] != kIgnoreTarget) {
            columns.target_rows.push_back(static_cast<int32_t>(columns.tokens.size()));
            columns.targets.push_back(targets[i]);
          }
          columns.tokens.push_back(tokens[i]);
          columns.positions.push_back(static_cast<int32_t>(t));
          columns.types.push_back(types[i]);
          columns.padded_rows.push_back(padded_row++);
        }
        columns.documents.push_back(static_cast<int32_t>(columns.tokens.size()));
        columns.labels.push_back(golden_labels[static_cast<size_t>(sequence)]);
      }
    }
    batch_.sequences = static_cast<int64_t>(rows.size());
    batch_.seq_length = kSeqLength;
    batch_.tokens = keep(columns.tokens);
    batch_.positions = keep(columns.positions);
    batch_.token_types = keep(columns.types);
    batch_.padded_rows = keep(columns.padded_rows);
    batch_.documents = keep(columns.documents);
    batch_.target_rows = keep(columns.target_rows);
    batch_.targets = keep(columns.targets);
    batch_.labels = keep(columns.labels);
  }

  const TokenBatch& batch() const { return batch_; }

 private:
  struct Columns {
    std::vector<int32_t> tokens, positions, types, padded_rows, target_rows, targets, labels;
    std::vector<int32_t> documents = {0};
  };

  Tensor keep(const std::vector<int32_t>& values) {
    memory_.push_back(test::from_ints(values, {static_cast<int64_t>(values.size())}));
    return memory_.back().tensor;
  }

  std::vector<test::TestTensor> memory_;
  TokenBatch batch_;
};

ModelConfig pretraining_config() {
  ModelConfig config = preset(ModelKind::bert);
  config.num_layers = 2;
  config.hidden_size = 24;
  config.num_heads = 3;
  config.seq_length = kSeqLength;
  config.vocab_size = 53;
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  config.norm_eps = 1e-12;
  config.token_types = 2;
  config.next_sentence = true;
  return config;
}

/// As in RoBERTa: masked words only.
ModelConfig masked_lm_config() {
  ModelConfig config = pretraining_config();
  config.token_types = 0;
  config.next_sentence = false;
  return config;
}

ModelConfig classification_config() {
  ModelConfig config = pretraining_config();
  config.next_sentence = false;
  config.head = Head::classification;
  config.num_labels = 3;
  return config;
}

/// A model with the golden weights on one tensor rank.
class GoldenModel {
 public:
  GoldenModel(const ModelConfig& config, Communicator& tp)
      : model_(std::make_unique<Model>(config, store_, tp)),
        sums_({LossSums::kCount}, DType::f64),
        arena_(test::test_device(), size_t{8} << 20) {
    store_.allocate(test::test_device(), DType::f32, StoreFor::training);
    golden_.load_weights(store_);
  }

  LossSums train(const TokenBatch& batch) {
    const LossWeights scale{1.0f / static_cast<float>(batch.num_targets()),
                            1.0f / static_cast<float>(batch.num_documents())};
    fill(sums_.tensor, 0.0);
    store_.zero_grads();
    arena_.reset();
    StepContext ctx{arena_};
    ctx.training = true;
    model_->train(ctx, batch, scale, sums());
    return sums();
  }

  LossSums evaluate(const TokenBatch& batch, const Tensor& predictions) {
    fill(sums_.tensor, 0.0);
    model_->evaluate(context(), batch, sums(), predictions);
    return sums();
  }

  Model& model() { return *model_; }

  /// For a forward pass that is not followed by a backward pass.
  StepContext context() {
    arena_.reset();
    return StepContext{arena_};
  }

  test::Golden golden_{"bert"};
  ParameterStore store_;

 private:
  LossSums sums() const { return {sums_.tensor}; }

  std::unique_ptr<Model> model_;
  test::TestTensor sums_;
  Arena arena_;
};

double only(const Tensor& tensor) { return tensor.span<double>()[0]; }

double token_loss(const LossSums& sums, const TokenBatch& batch) {
  return only(sums.token_loss()) / static_cast<double>(batch.num_targets());
}

double document_loss(const LossSums& sums, const TokenBatch& batch) {
  return only(sums.document_loss()) / static_cast<double>(batch.num_documents());
}

/// The index of the largest logit in each row.
std::vector<int32_t> likeliest(const std::vector<float>& logits, size_t rows) {
  const auto columns = static_cast<int64_t>(logits.size() / rows);
  std::vector<int32_t> places;
  for (auto row = logits.begin(); row != logits.end(); row += columns) {
    places.push_back(static_cast<int32_t>(std::max_element(row, row + columns) - row));
  }
  return places;
}

void expect_logits(const Tensor& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.numel(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual.data<float>()[i], expected[i], 2e-5) << "logit " << i;
  }
}

struct Case {
  int tensor_ranks;
  bool packed;

  const Rows& rows() const { return packed ? kPacked : kPadded; }
};

class BertParity : public testing::TestWithParam<Case> {};

TEST_P(BertParity, LogitsOfAllHeadsMatch) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(pretraining_config(), tp);
    const GoldenBatch golden(model.golden_, kPadded, "next_sentence_label");
    TokenBatch all = golden.batch();
    std::vector<int32_t> rows(static_cast<size_t>(all.num_tokens()));
    std::iota(rows.begin(), rows.end(), 0);
    const test::TestTensor target_rows = test::from_ints(rows, {all.num_tokens()});
    all.target_rows = all.targets = target_rows.tensor;  // any targets
    expect_logits(model.model().token_logits(model.context(), all),
                  model.golden_.get<float>("mlm_logits"));
    expect_logits(model.model().label_logits(model.context(), all),
                  model.golden_.get<float>("next_sentence_logits"));

    GoldenModel classifier(classification_config(), tp);
    expect_logits(classifier.model().label_logits(classifier.context(), golden.batch()),
                  model.golden_.get<float>("classification/logits"));
  });
}

TEST_P(BertParity, PretrainingLossesAndGradientsMatch) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(pretraining_config(), tp);
    const GoldenBatch golden(model.golden_, GetParam().rows(), "next_sentence_label");
    const LossSums sums = model.train(golden.batch());
    EXPECT_NEAR(token_loss(sums, golden.batch()), model.golden_.get<float>("mlm_loss")[0], 3e-6);
    EXPECT_NEAR(document_loss(sums, golden.batch()),
                model.golden_.get<float>("next_sentence_loss")[0], 2e-6);
    model.golden_.expect_parameters(model.store_, "grad/", &Parameter::grad, 1e-5,
                                    test::Golden::KeyBias::compared);
  });
}

TEST_P(BertParity, TenAdamWStepsMatch) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(pretraining_config(), tp);
    const GoldenBatch golden(model.golden_, GetParam().rows(), "next_sentence_label");
    OptimizerSection settings;
    settings.betas = {0.9, 0.95};
    settings.eps = 1e-8;
    settings.weight_decay = 0.1;
    const ParallelGroups groups = make_parallel_groups(tp, {.tensor = tp.size()});
    OptimizerState state(model.store_);
    Optimizer optimizer(settings, state, groups);
    GradientClip clip(model.store_, groups, {.max_norm = 1.0});
    const auto losses = model.golden_.get<float>("losses");
    const auto norms = model.golden_.get<float>("grad_norms");
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto i = static_cast<size_t>(step);
      const LossSums sums = model.train(golden.batch());
      EXPECT_NEAR(token_loss(sums, golden.batch()) + document_loss(sums, golden.batch()), losses[i],
                  5e-6)
          << "step " << step;
      const Tensor& scale = clip.scale(step + 1, sums);
      const double norm = clip.record().norm().span<double>()[0];
      EXPECT_NEAR(norm, norms[i], 5e-5 * double{norms[i]}) << "step " << step;
      optimizer.step(step, /*lr=*/1e-2, scale);
    }
    model.golden_.expect_parameters(model.store_, "trained/", &Parameter::value, 5e-5,
                                    test::Golden::KeyBias::left_out);
  });
}

TEST_P(BertParity, MatchesWithoutTokenTypesAndNextSentence) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(masked_lm_config(), tp);
    const GoldenBatch golden(model.golden_, GetParam().rows(), "next_sentence_label");
    const LossSums sums = model.train(golden.batch());
    EXPECT_NEAR(token_loss(sums, golden.batch()), model.golden_.get<float>("masked_lm/mlm_loss")[0],
                3e-6);
    EXPECT_EQ(only(sums.document_loss()), 0.0);
    model.golden_.expect_parameters(model.store_, "masked_lm/grad/", &Parameter::grad, 1e-5,
                                    test::Golden::KeyBias::compared);
  });
}

TEST_P(BertParity, ClassificationLossAndGradientsMatch) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(classification_config(), tp);
    const GoldenBatch golden(model.golden_, GetParam().rows(), "classes");
    const LossSums sums = model.train(golden.batch());
    EXPECT_NEAR(document_loss(sums, golden.batch()),
                model.golden_.get<float>("classification/loss")[0], 2e-6);
    model.golden_.expect_parameters(model.store_, "classification/grad/", &Parameter::grad, 2e-5,
                                    test::Golden::KeyBias::compared);
  });
}

TEST_P(BertParity, EvaluationCountsCorrectTokensAndSentences) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(pretraining_config(), tp);
    const GoldenBatch golden(model.golden_, kPadded, "next_sentence_label");
    const TokenBatch& batch = golden.batch();
    const auto words =
        likeliest(model.golden_.get<float>("mlm_logits"), static_cast<size_t>(batch.num_tokens()));
    const auto next = likeliest(model.golden_.get<float>("next_sentence_logits"), kSequences);
    int64_t words_right = 0, next_right = 0;
    for (int64_t i = 0; i < batch.num_targets(); ++i) {
      const int32_t row = batch.target_rows.data<int32_t>()[i];
      words_right += words[static_cast<size_t>(row)] == batch.targets.data<int32_t>()[i];
    }
    for (size_t i = 0; i < next.size(); ++i)
      next_right += next[i] == batch.labels.data<int32_t>()[i];

    test::TestTensor predictions({kSequences}, DType::i32);
    const LossSums sums = model.evaluate(batch, predictions.tensor);
    EXPECT_NEAR(token_loss(sums, batch), model.golden_.get<float>("mlm_loss")[0], 3e-6);
    EXPECT_NEAR(document_loss(sums, batch), model.golden_.get<float>("next_sentence_loss")[0],
                2e-6);
    EXPECT_EQ(only(sums.token_correct()), static_cast<double>(words_right));
    EXPECT_EQ(only(sums.document_correct()), static_cast<double>(next_right));
  });
}

TEST_P(BertParity, EvaluationPredictsMostLikelyClasses) {
  test::run_device_ranks(GetParam().tensor_ranks, [](Communicator& tp) {
    GoldenModel model(classification_config(), tp);
    const GoldenBatch golden(model.golden_, kPadded, "classes");
    test::TestTensor predictions({kSequences}, DType::i32);
    model.evaluate(golden.batch(), predictions.tensor);
    const auto classes = likeliest(model.golden_.get<float>("classification/logits"), kSequences);
    const auto predicted = predictions.tensor.span<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(predicted.begin(), predicted.end()), classes);
  });
}

INSTANTIATE_TEST_SUITE_P(TensorRanks, BertParity,
                         testing::Values(Case{1, false}, Case{1, true}, Case{3, false},
                                         Case{3, true}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.tensor_ranks) +
                                  (tested.param.packed ? "_packed" : "_padded");
                         });

}  // namespace
}  // namespace tessera
