#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/ops/elementwise.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/run_layout.h"
#include "models/architecture.h"
#include "models/model.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/random_batch.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::SmallKind;
using Gradients = std::map<std::string, std::vector<double>>;

/// Keeps the values of all blocks away, but those in use, which are copies in a slot of an even or
/// an odd unit. What is not in use is NaN or fails.
class ValuesComeAndGo final : public UnitListener {
 public:
  explicit ValuesComeAndGo(ParameterStore& store) : store_(store) {
    size_t most = 0;
    for (size_t unit = 0; unit < store.units().size(); ++unit) {
      const UnitValues values = store.values_of(unit);
      home_.push_back({test::copy_of(values.trained), test::copy_of(values.frozen)});
      most = std::max(most, static_cast<size_t>(values.trained.numel() + values.frozen.numel()));
      if (!store.units()[unit].is_block) continue;
      store.release_values(unit);
      fill(values.trained, NAN);
      fill(values.frozen, NAN);
    }
    for (OwnedTensor& slot : slots_) {
      slot = OwnedTensor({static_cast<int64_t>(most)}, store.precision(), store.device());
    }
  }
  ~ValuesComeAndGo() override {
    for (size_t unit = 0; unit < home_.size(); ++unit) {
      const UnitValues values = store_.values_of(unit);
      copy(home_[unit].first.tensor, values.trained);
      copy(home_[unit].second.tensor, values.frozen);
      store_.place_values(unit, values);
    }
  }

  void begin(const StepContext& /*ctx*/, const UnitUse& use) override {
    const size_t unit = use.unit;
    EXPECT_TRUE(store_.units()[unit].is_block);
    const auto& [trained, frozen] = home_[unit];
    const Tensor& slot = slots_[unit % 2].tensor;
    const int64_t middle = trained.tensor.numel(), end = middle + frozen.tensor.numel();
    copy(trained.tensor, slot.slice(0, middle));
    copy(frozen.tensor, slot.slice(middle, end));
    store_.place_values(unit, {slot.slice(0, middle), slot.slice(middle, end)});
    ++used;
  }
  void end(const StepContext& /*ctx*/, const UnitUse& use) override {
    fill(slots_[use.unit % 2].tensor, NAN);
    store_.release_values(use.unit);
  }

  int used = 0;

 private:
  ParameterStore& store_;
  std::vector<std::pair<OwnedTensor, OwnedTensor>> home_;
  OwnedTensor slots_[2];
};

/// A model and two of its micro-batches, each with memory and a slot of its own.
class TwoMicroBatches {
 public:
  TwoMicroBatches(const RunConfig& run, const ParallelGroups& groups)
      : run_(run),
        groups_(groups),
        model_(run.model, store_, *groups.tp),
        batches_{test::RandomBatch(run.model, 2, 1), test::RandomBatch(run.model, 2, 2)} {
    allocate_for_training(run.step_options(), groups, test::test_device(), store_).initialize(5);
  }

  /// The same, with the values of blocks present only where they are used.
  Gradients gradients_with_values_of_blocks() {
    ValuesComeAndGo values(store_);
    model_.listen(&values);
    Gradients found = gradients(/*both=*/true);
    model_.listen(nullptr);
    // Forward and backward of each layer in both micro-batches, but of blocks without a gradient.
    EXPECT_GE(values.used, 2 * static_cast<int>(run_.model.num_layers));
    return found;
  }

  /// The gradients of both, computed one after the other or with both in flight.
  Gradients gradients(bool both) {
    both_ = both;
    store_.invalidate_grads();
    fill(sums_.tensor, 0.0);
    if (both) {
      forward(0);
      forward(1);
      backward(0);
      backward(1);
    } else {
      for (const int i : {0, 1}) {
        forward(i);
        backward(i);
      }
    }
    Gradients found = {{"losses", test::to_doubles(sums_.tensor)}};
    for (const Parameter& parameter : store_.parameters()) {
      if (!parameter.frozen) found[parameter.name] = test::to_doubles(parameter.grad());
    }
    return found;
  }

 private:
  StepContext context(int i) {
    StepContext ctx{arenas_[i]};
    ctx.slot = both_ ? i : 0;
    ctx.training = true;
    ctx.recompute = run_.train.recompute;
    ctx.first_sequence = 2 * i;
    ctx.rows = sequence_shard(run_.parallel, groups_);
    return ctx;
  }

  void forward(int i) {
    arenas_[i].reset();
    if (embeds()) {
      embeddings_[i] = model_.embed(context(i), batches_[i].batch);
    } else {
      model_.forward(context(i), batches_[i].batch);
    }
  }

  void backward(int i) {
    const TokenBatch& batch = batches_[i].batch;
    if (embeds()) return model_.embed_backward(context(i), batch, embeddings_[i]);
    model_.loss_and_gradient(context(i), batch, {0.3f, 0.7f}, {sums_.tensor});
    model_.backward(context(i), batch);
  }

  bool embeds() const { return run_.model.head == Head::embedding; }

  RunConfig run_;
  bool both_ = false;
  const ParallelGroups& groups_;
  ParameterStore store_;
  Model model_;
  test::RandomBatch batches_[2];
  Arena arenas_[2] = {Arena(test::test_device(), size_t{16} << 20),
                      Arena(test::test_device(), size_t{16} << 20)};
  Tensor embeddings_[2];
  test::TestTensor sums_{{LossSums::kCount}, DType::f64};
};

class MicroBatchesInFlight : public testing::TestWithParam<SmallKind> {};

TEST_P(MicroBatchesInFlight, HaveTheGradientsOfOneAfterTheOther) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  for (const Recompute recompute : {Recompute::none, Recompute::activation, Recompute::block}) {
    RunConfig run = test::small_run(folder, "run", GetParam());
    run.parallel.tensor = 2;
    run.parallel.sequence = true;
    run.train.recompute = recompute;
    test::run_device_ranks(2, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      TwoMicroBatches two(run, groups);
      const Gradients expected = two.gradients(/*both=*/false);
      EXPECT_EQ(two.gradients(/*both=*/true), expected);
      EXPECT_EQ(two.gradients_with_values_of_blocks(), expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MicroBatchesInFlight, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

}  // namespace
}  // namespace tessera
