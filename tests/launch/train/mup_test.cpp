#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "launch/train/optimizer/optimizer.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "models/architecture.h"
#include "models/model.h"
#include "models/transformer.h"
#include "parallel/process_grid.h"
#include "tests/support/runs/random_batch.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kBaseWidth = 32, kHeads = 2, kRows = 2;

/// What a coordinate check compares: outputs of all tokens.
struct Outputs {
  std::vector<double> logits, hidden;
  std::vector<double> log_attention;  // logarithms of the last layer's weights
};

/// Trains a model on one batch.
class Learner {
 public:
  explicit Learner(const StepOptions& config)
      : config_(config), model_(config.model, store_, *self_), batch_(config.model, kRows, 3) {
    state_.emplace(allocate_for_training(config_, groups_, test::test_device(), store_));
    state_->initialize(5);
    optimizer_.emplace(config_.optimizer, *state_, groups_);
  }

  void train(int64_t steps) {
    const test::TestTensor sums({LossSums::kCount}, DType::f64), one({1}, DType::f32);
    fill(one.tensor, 1.0);
    fill(sums.tensor, 0.0);
    const TokenBatch& batch = batch_.batch;
    const auto mean_of = [](int64_t count) { return 1.0f / static_cast<float>(count); };
    for (int64_t step = 0; step < steps; ++step) {
      arena_.reset();
      store_.zero_grads();
      StepContext ctx{arena_};
      ctx.training = true;
      const int64_t targets = std::max<int64_t>(1, batch.num_targets());
      model_.train(ctx, batch, {mean_of(targets), mean_of(batch.num_documents())}, {sums.tensor});
      arena_.reset();
      optimizer_->step(step, config_.optimizer.lr, one.tensor, &arena_);
    }
  }

  Outputs outputs() {
    Outputs result;
    arena_.reset();
    const TokenBatch& batch = batch_.batch;
    const StepContext ctx = context_for(StepContext{arena_}, batch);
    result.logits =
        test::to_doubles(config_.model.head == Head::pretraining ? model_.token_logits(ctx, batch)
                                                                 : model_.label_logits(ctx, batch));
    result.hidden = test::to_doubles(model_.hidden_states(ctx, batch));
    const int64_t tokens = batch.num_tokens(), heads = config_.model.num_heads;
    const Tensor weights = arena_.allocate({1, heads, tokens, tokens}, DType::f32);
    model_.transformer().attention(config_.model.num_layers - 1).weights(ctx, weights);
    for (const double weight : test::to_doubles(weights)) {
      if (weight > 0.0) result.log_attention.push_back(std::log(weight));
    }
    return result;
  }

  const ParameterStore& store() const { return store_; }

 private:
  StepOptions config_;
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  ParallelGroups groups_ = make_parallel_groups(*self_);
  Arena arena_{test::test_device(), size_t{64} << 20};
  ParameterStore store_;
  Model model_;
  test::RandomBatch batch_;
  std::optional<OptimizerState> state_;
  std::optional<Optimizer> optimizer_;
};

/// A model of a kind. With `is_mup`, that of width 32 is the base.
StepOptions config_of(ModelKind kind, int64_t width, bool is_mup) {
  StepOptions config;
  ModelConfig& model = config.model;
  apply_preset(model, kind);
  model.num_layers = 2;
  model.hidden_size = width;
  model.num_heads = kHeads;  // wider models have wider heads
  model.seq_length = 6;
  model.vocab_size = 37;
  model.init_stddev = 0.05;
  if (architecture_of(kind).images) {
    model.head = Head::classification;
    model.num_labels = 5;
    model.image_size = 8;
    model.patch_size = 4;
    model.num_channels = 1;
    model.vocab_size = 1;
    model.seq_length = model.image_tokens();
  }
  if (is_mup) {
    model.mup_base_hidden_size = kBaseWidth;
    model.mup_base_head_dim = kBaseWidth / kHeads;
  }
  config.optimizer.lr = 1e-4;
  config.optimizer.weight_decay = 0.0;
  return config;
}

double rms_of_change(const std::vector<double>& before, const std::vector<double>& after) {
  std::vector<double> change;
  for (size_t i = 0; i < before.size(); ++i) change.push_back(after[i] - before[i]);
  return test::root_mean_square(change);
}

/// The slope of the line through (log x, log y) with the least squares.
double log_slope(const std::map<int64_t, double>& y_of_x) {
  double n = 0.0, x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
  for (const auto& [at, value] : y_of_x) {
    const double a = std::log(static_cast<double>(at)), b = std::log(value);
    n += 1.0, x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

/// How the change of a model's outputs over some steps grows with its width: the exponent.
struct Growth {
  double logits, hidden, attention;
};

std::ostream& operator<<(std::ostream& out, const Growth& growth) {
  return out << "logits " << growth.logits << ", hidden " << growth.hidden << ", attention "
             << growth.attention;
}

Growth growth_of(ModelKind kind, OptimizerName optimizer, bool is_mup) {
  std::map<int64_t, double> logits, hidden, attention;
  for (const int64_t width : {32, 64, 128, 256}) {
    StepOptions config = config_of(kind, width, is_mup);
    config.optimizer.name = optimizer;
    Learner learner(config);
    const Outputs before = learner.outputs();
    learner.train(4);
    const Outputs after = learner.outputs();
    logits[width] = rms_of_change(before.logits, after.logits);
    hidden[width] = rms_of_change(before.hidden, after.hidden);
    attention[width] = rms_of_change(before.log_attention, after.log_attention);
  }
  return {log_slope(logits), log_slope(hidden), log_slope(attention)};
}

struct Checked {
  ModelKind kind;
  OptimizerName optimizer = OptimizerName::adamw;
};

class CoordinateCheck : public testing::TestWithParam<Checked> {};

// As in Yang et al., "Tensor Programs V", 2022, appendix D.1. Exponents of 0 are for infinite
// width: with 12 tokens, these widths have −0.3 to 0.1, and those of attention, which starts with
// scores that vanish in wide models, −0.6 to −0.1. A factor of √m that is missing adds 0.5.
TEST_P(CoordinateCheck, ChangesDoNotGrowWithWidth) {
  const auto [kind, optimizer] = GetParam();
  const Growth standard = growth_of(kind, optimizer, /*is_mup=*/false);
  const Growth mup = growth_of(kind, optimizer, /*is_mup=*/true);
  SCOPED_TRACE(testing::Message() << "standard: " << standard << "; µP: " << mup);
  EXPECT_LT(mup.logits, 0.15);
  EXPECT_GT(mup.logits, -0.4);
  EXPECT_LT(std::abs(mup.hidden), 0.2);
  EXPECT_LT(mup.attention, 0.1);
  EXPECT_GT(standard.logits, 0.5);
  EXPECT_GT(standard.hidden, 0.2);
  EXPECT_GT(standard.attention, 1.0);
}

INSTANTIATE_TEST_SUITE_P(All, CoordinateCheck,
                         testing::Values(Checked{ModelKind::gpt2},
                                         Checked{ModelKind::gpt2, OptimizerName::lion},
                                         Checked{ModelKind::gpt2, OptimizerName::muon},
                                         Checked{ModelKind::llama}, Checked{ModelKind::bert},
                                         Checked{ModelKind::t5}, Checked{ModelKind::vit}),
                         [](const auto& instance) {
                           const Checked& checked = instance.param;
                           const std::string kind(to_string(checked.kind));
                           if (checked.optimizer == OptimizerName::lion) return kind + "_lion";
                           return checked.optimizer == OptimizerName::muon ? kind + "_muon" : kind;
                         });

TEST(Mup, BaseModelIsStandardBitForBit) {
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::bert, ModelKind::t5, ModelKind::vit}) {
    for (const OptimizerName optimizer : {OptimizerName::adamw, OptimizerName::muon}) {
      SCOPED_TRACE(std::string(to_string(kind)));
      std::vector<StepOptions> configs;
      for (const bool is_mup : {false, true}) {
        configs.push_back(config_of(kind, kBaseWidth, is_mup));
        configs.back().optimizer.name = optimizer;
        configs.back().optimizer.weight_decay = 0.1;
      }
      Learner standard(configs[0]), base(configs[1]);
      standard.train(3);
      base.train(3);
      EXPECT_EQ(base.outputs().logits, standard.outputs().logits);
      test::expect_same_bits(base.store().flat_values(), standard.store().flat_values(), "weights");
    }
  }
}

TEST(Mup, EachRoleHasItsRule) {
  StepOptions config = config_of(ModelKind::llama, 4 * kBaseWidth, /*is_mup=*/true);
  config.optimizer.weight_decay = 0.5;
  config.optimizer.lr_scales = {{"*.mlp.down.*", 3.0}};
  const auto self = make_self_communicator();
  ParameterStore store;
  const Model model(config.model, store, *self);
  const auto stddev = static_cast<float>(config.model.init_stddev);
  const std::map<std::string, WidthRole> kRoles = {
      {"embedding.word", WidthRole::input},
      {"blocks.1.attention.qkv.weight", WidthRole::hidden},
      {"blocks.1.mlp.down.weight", WidthRole::hidden},
      {"blocks.1.mlp_norm.weight", WidthRole::vector},
      {"head.weight", WidthRole::output}};
  for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::muon}) {
    config.optimizer.name = name;
    const OptimizerGroups groups = optimizer_groups(config.optimizer, store);
    const double hidden = name == OptimizerName::muon ? 0.5 : 0.25;
    size_t seen = 0;
    for (const Parameter& parameter : store.parameters()) {
      const auto role = kRoles.find(parameter.name);
      if (role == kRoles.end()) continue;
      SCOPED_TRACE(parameter.name);
      ++seen;
      EXPECT_EQ(parameter.role, role->second);
      const bool is_hidden = parameter.role == WidthRole::hidden;
      const bool is_down = parameter.name == "blocks.1.mlp.down.weight";
      const OptimizerGroup& group =
          groups.groups[static_cast<size_t>(groups.group_of[parameter.index])];
      EXPECT_EQ(group.lr_factor, (is_hidden ? hidden : 1.0) * (is_down ? 3.0 : 1.0));
      if (!parameter.decay) continue;
      EXPECT_EQ(group.weight_decay, is_hidden ? 0.5 / hidden : 0.5);
      EXPECT_EQ(parameter.init.stddev, is_hidden ? stddev / 2.0f : stddev);
    }
    EXPECT_EQ(seen, kRoles.size());
  }
}

}  // namespace
}  // namespace tessera
