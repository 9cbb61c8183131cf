#include "tests/support/training_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "core/random.h"
#include "launch/checkpoint/find.h"
#include "launch/data/indexed_dataset_writer.h"
#include "launch/train/open_data.h"
#include "launch/train/start.h"
#include "parallel/thread_communicator.h"
#include "tests/support/shards.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

using PickTensor = std::function<const Tensor&(const Parameter&)>;

/// Puts one parameter's shard into its whole tensor, and checks it against what is there already.
void put(const Parameter& parameter, const Tensor& local_tensor, std::vector<float>& whole,
         std::vector<bool>& known) {
  const float* from = parameter.real_part(local_tensor).data<float>();
  for_each_run(parameter.global_shape, parameter.shard,
               [&](int64_t global, int64_t local, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) {
                   const auto at = static_cast<size_t>(global + i);
                   const float value = from[local + i];
                   const bool same = std::memcmp(&whole[at], &value, sizeof(value)) == 0;
                   EXPECT_TRUE(!known[at] || same)
                       << parameter.name << ": replicas differ at element " << at;
                   whole[at] = value;
                   known[at] = true;
                 }
               });
}

/// Collects whole tensors from all ranks.
class Collector {
 public:
  void add(const ParameterStore& store, const PickTensor& pick, WholeTensors& into) {
    const std::lock_guard lock(mutex_);
    for (const Parameter& parameter : store.parameters()) {
      std::vector<float>& whole = into[parameter.name];
      std::vector<bool>& known = known_[{&into, parameter.name}];
      whole.resize(static_cast<size_t>(parameter.global_shape.numel()));
      known.resize(whole.size());
      put(parameter, pick(parameter), whole, known);
    }
  }

  /// Every element of every tensor was held by some rank.
  void expect_complete() const {
    for (const auto& [key, known] : known_) {
      EXPECT_TRUE(std::all_of(known.begin(), known.end(), [](bool b) { return b; }))
          << key.second << " has holes";
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const WholeTensors*, std::string>, std::vector<bool>> known_;
};

}  // namespace

std::string to_string(const Layout& layout) {
  return fmt::format("tensor {} x data {}", layout.tensor, layout.data);
}

RunConfig small_run(const std::string& run_dir, const std::string& dataset) {
  RunConfig config;
  config.run.dir = run_dir;
  config.run.seed = 7;
  config.model.num_layers = 2;
  config.model.hidden_size = 32;
  config.model.num_heads = 4;
  config.model.seq_length = 16;
  config.model.vocab_size = 53;
  config.model.dropout = 0.0;
  config.model.attention_dropout = 0.0;
  config.model.init_stddev = 0.1;  // so that all parts of the model have gradients to compare
  config.data.train = dataset;
  config.data.eval_fraction = 0.1;
  config.batch.global = 8;
  config.batch.micro = 2;
  config.train.steps = 20;
  config.optimizer.lr = 1e-2;
  config.optimizer.warmup_steps = 3;
  // An update moves by at most lr × (error of the gradient) / eps, so a large eps keeps weights
  // whose gradient is nothing but rounding from moving a full lr in a random direction.
  config.optimizer.eps = 1e-2;
  config.eval.batches = 3;
  return config;
}

void write_small_dataset(const std::string& prefix, int64_t tokens, int32_t vocab_size) {
  IndexedDatasetWriter writer(prefix, {TokenType::u16, /*overwrite=*/true});
  std::vector<int32_t> document;
  const RandomKey key{3, RandomPurpose::sampling, 0, 0};
  for (int64_t i = 0; i < tokens; ++i) {
    const uint32_t bits = random_bits(key, static_cast<uint64_t>(i));
    // Three quarters of the tokens follow from the one before.
    const bool follows = bits % 4 != 0 && !document.empty();
    document.push_back(follows
                           ? (document.back() * 5 + 1) % vocab_size
                           : static_cast<int32_t>(bits / 4 % static_cast<uint32_t>(vocab_size)));
  }
  writer.append(document);
  writer.end_document();
  writer.finish();
}

WholeRun train_whole(const RunConfig& base, const RunPlan& plan) {
  RunConfig config = base;
  config.parallel.tensor = plan.layout.tensor;
  WholeRun result;
  Collector collector;
  run_thread_ranks(plan.layout.ranks(), [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, plan.layout.tensor);
    Trainer trainer(config, groups, open_data(config));
    if (plan.resume) {
      const auto newest = newest_whole_checkpoint(
          config.run.dir, [](const std::string&) {}, world);
      require(newest.has_value(), "no checkpoint to resume from in {}", config.run.dir);
      Checkpoint checkpoint = Checkpoint::open(*newest);
      trainer.restore(checkpoint);
    } else {
      trainer.initialize();
    }
    const ParameterStore& store = trainer.parameters();
    const auto masters = [](const Parameter& p) -> const Tensor& { return p.master; };
    const auto grads = [](const Parameter& p) -> const Tensor& { return p.grad; };
    const auto moments = [](const Parameter& p) -> const Tensor& { return p.exp_avg; };
    collector.add(store, masters, result.initial_weights);
    std::vector<StepResult> steps;
    for (int64_t i = 0; i < plan.steps; ++i) {
      steps.push_back(trainer.step());
      if (i == 0) collector.add(store, grads, result.first_gradients);
    }
    collector.add(store, masters, result.weights);
    collector.add(store, moments, result.exp_avg);
    const double eval_loss = trainer.evaluate().losses.total();
    if (plan.save) trainer.save();
    if (world.rank() == 0) {
      result.steps = steps;
      result.eval_loss = eval_loss;
    }
  });
  collector.expect_complete();
  return result;
}

void expect_close(const WholeTensors& actual, const WholeTensors& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& found = actual.at(name);
    test::expect_close(std::vector<double>(found.begin(), found.end()),
                       std::vector<double>(values.begin(), values.end()), tolerance,
                       (what + ": " + name).c_str());
  }
}

void expect_same_bits(const WholeTensors& actual, const WholeTensors& expected,
                      const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& found = actual.at(name);
    ASSERT_EQ(found.size(), values.size()) << what << ": " << name;
    EXPECT_EQ(std::memcmp(found.data(), values.data(), values.size() * sizeof(float)), 0)
        << what << ": " << name << " has other bits";
  }
}

}  // namespace tessera::test
