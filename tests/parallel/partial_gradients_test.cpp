#include "parallel/partial_gradients.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/ops/elementwise.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

/// Declares parameters with whole and with partial gradients; "long" is reduced in place.
void declare_and_fill(ParameterStore& store, int rank, bool sequence,
                      const OptimizerSharding& sharding = {}) {
  const auto declare = [&](const char* name, int64_t elements, bool local_rows) {
    ParameterSpec spec{name, {elements}};
    spec.local_rows = local_rows;
    store.declare(spec);
  };
  declare("long", PartialGradients::kAlone, true);
  declare("weight", 100, false);
  declare("bias", 7, true);
  declare("norm", 9, true);
  declare("other_weight", 100, false);
  declare("last_norm", 3, true);
  ParameterSpec query_norm{"query_norm", {5}};
  query_norm.partial_over = kReplicaAxes | AxisSet{Axis::tensor};  // of the local heads
  store.declare(query_norm);
  if (sequence) store.shard_rows();
  store.allocate(test::test_device(), DType::f32, StoreFor::training, sharding);
  double value = 0.0;
  for (Parameter& parameter : store.parameters()) fill(parameter.grad(), ++value * (rank + 1));
}

TEST(PartialGradientsTest, SumsOnlyPartialGradients) {
  for (const auto& [ranks, sequence] :
       {std::pair(1, true), std::pair(2, false), std::pair(2, true), std::pair(4, true)}) {
    test::run_device_ranks(ranks, [ranks = ranks, sequence = sequence](Communicator& tp) {
      ParameterStore store;
      declare_and_fill(store, tp.rank(), sequence);
      Arena arena(test::test_device(), size_t{1} << 16);
      PartialGradients(store, tp).sum(arena);
      EXPECT_EQ(arena.used(), 0U);
      double value = 0.0;
      for (const Parameter& parameter : store.parameters()) {
        ++value;
        const bool local =
            parameter.name == "query_norm" || (sequence && !parameter.name.ends_with("weight"));
        const double factor = local ? ranks * (ranks + 1) / 2 : tp.rank() + 1;
        for (const double grad : test::to_doubles(parameter.grad())) {
          ASSERT_EQ(grad, value * factor) << parameter.name;
        }
      }
    });
  }
}

TEST(PartialGradientsTest, SumsOnlyOptimizerShard) {
  for (const int owner : {0, 1, 2}) {
    test::run_device_ranks(2, [&](Communicator& tp) {
      ParameterStore store;
      declare_and_fill(store, tp.rank(), true,
                       {.num_shards = 3, .shard = owner, .bucket_elements = 200});
      Arena arena(test::test_device(), size_t{1} << 20);
      const PartialGradients gradients(store, tp);
      EXPECT_LT(gradients.num_elements(), store.flat_size() / 2);
      gradients.sum(arena);
      double value = 0.0;
      for (const Parameter& parameter : store.parameters()) {
        ++value;
        const bool local = !parameter.name.ends_with("weight");
        const auto grads = test::to_doubles(parameter.grad());
        for (int64_t i = 0; i < std::ssize(grads); ++i) {
          const bool sum = local && store.owned_elements(parameter).contains(i);
          ASSERT_EQ(grads[static_cast<size_t>(i)], value * (sum ? 3 : tp.rank() + 1))
              << parameter.name << " " << i;
        }
      }
    });
  }
}

TEST(PartialGradientsTest, ExchangesNothingWithoutPartialGradients) {
  test::run_device_ranks(2, [](Communicator& tp) {
    ParameterStore store;
    store.declare({"weight", {100}});
    store.allocate(test::test_device(), DType::f32, StoreFor::training);
    Arena arena(test::test_device(), size_t{1} << 12);
    const PartialGradients none(store, tp);
    EXPECT_EQ(none.num_elements(), 0);
    if (tp.rank() == 0) none.sum(arena);  // the other rank does not call it
  });
}

}  // namespace
}  // namespace tessera
