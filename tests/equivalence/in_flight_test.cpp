#include <gtest/gtest.h>

#include <map>

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

/// A model and two of its micro-batches, each with memory and a slot of its own.
class TwoMicroBatches {
 public:
  TwoMicroBatches(const RunConfig& run, const ParallelGroups& groups)
      : run_(run),
        groups_(groups),
        model_(run.model, store_, *groups.tp),
        batches_{test::RandomBatch(run.model, 2, 1), test::RandomBatch(run.model, 2, 2)} {
    allocate_for_training(run, groups, test::test_device(), store_);
    store_.initialize(5);
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
      if (!parameter.frozen) found[parameter.name] = test::to_doubles(parameter.grad);
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
    ctx.rows = sequence_shard(run_, groups_);
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
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MicroBatchesInFlight, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

}  // namespace
}  // namespace tessera
