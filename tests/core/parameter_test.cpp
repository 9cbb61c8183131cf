#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/checked.h"
#include "core/ops/block_codes.h"
#include "core/ops/elementwise.h"
#include "core/parameters/optimizer_state.h"
#include "core/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

ParameterSpec weight(const Shape& shape, Shard shard = {}, int64_t padded_extent = 0) {
  return {"layer.weight", shape, shard, Init::normal(0.02f), true, padded_extent};
}

/// One initialized parameter in a store of its own.
struct Initialized {
  explicit Initialized(const ParameterSpec& spec, DType precision = DType::f32,
                       StoreFor purpose = StoreFor::training) {
    store.declare(spec);
    store.allocate(test_device(), precision, purpose);
    store.initialize(1234);
  }
  const Parameter& parameter() const { return store.parameters().front(); }

  ParameterStore store;
};

/// The elements of `shard` of the global array `whole`, row-major.
std::vector<double> cut(std::span<const double> whole, const Shape& shape, const Shard& shard) {
  int64_t inner = 1;
  for (int i = shard.dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  std::vector<double> part;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (shard.range.contains(i / inner % shape[shard.dim])) {
      part.push_back(whole[static_cast<size_t>(i)]);
    }
  }
  return part;
}

TEST(ParameterStore, FrozenParametersHaveValuesAlone) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const int shards : {1, 2}) {
      ParameterStore store, all;
      for (ParameterStore* made : {&store, &all}) {
        for (const char* name : {"a", "b", "c", "d"}) {
          made->declare({name, {40}, {}, Init::normal(1.0f), true});
        }
      }
      const auto is_frozen = [](const Parameter& p) { return p.name != "b" && p.name != "d"; };
      store.freeze(is_frozen);
      const OptimizerSharding sharding{shards, 0, 64};
      store.allocate(test_device(), precision, StoreFor::training, sharding);
      all.allocate(test_device(), precision, StoreFor::training, sharding);
      EXPECT_EQ(store.grad_bytes(), all.grad_bytes() / 2);
      OptimizerState state(store), of_all(all);
      EXPECT_EQ(state.moment_bytes(), of_all.moment_bytes() / 2);
      EXPECT_EQ(store.value_bytes(), all.value_bytes());
      EXPECT_EQ(state.frozen_master_bytes(), precision == DType::f32 ? 0u : 2 * 64 * sizeof(float));
      state.initialize(3);
      of_all.initialize(3);
      store.invalidate_grads();
      EXPECT_EQ(store.invalid_grads(), 2u);
      for (size_t i = 0; i < 4; ++i) {
        const Parameter &parameter = store.parameters()[i], &same = all.parameters()[i];
        expect_same_bits(parameter.value(), same.value(), "the initial value");
        const OptimizerShard& own = state.of(parameter);
        EXPECT_EQ(own.exp_avg.defined(), !parameter.frozen);
        if (!parameter.frozen) continue;
        expect_error([&] { (void)parameter.grad(); }, {parameter.name.c_str(), "frozen"});
        EXPECT_EQ(own.master.shape(), Shape{40});
        EXPECT_EQ(own.master.dtype(), DType::f32);
        EXPECT_TRUE(precision == DType::f32 || own.master.device().is_cpu());
      }
      for (const FlatRange& range : store.ranges_by([](const Parameter& p) { return p.index; })) {
        EXPECT_TRUE(range.property == 1 || range.property == 3);
      }
      ParameterStore none;
      none.declare({"a", {40}, {}, Init::zeros()});
      none.freeze([](const Parameter&) { return true; });
      expect_error([&] { none.allocate(kCpu, precision, StoreFor::training); }, {"all parameters"});
    }
  }
}

TEST(ParameterStore, SplitsRangesByProperty) {
  ParameterStore store;
  for (const bool decay : {true, true, false, true, false, false}) {
    const auto number = store.parameters().size();
    store.declare({fmt::format("p{}", number), {5}, {}, Init::zeros(), decay});
  }
  const auto decays = [](const Parameter& parameter) { return parameter.decay; };
  expect_error([&] { store.ranges_by(decays); }, {"allocated"});
  store.allocate(kMeta, DType::f32, StoreFor::training);
  const auto& parameters = store.parameters();
  const auto ranges = store.ranges_by(decays);
  ASSERT_EQ(ranges.size(), 4U);
  const size_t first[] = {0, 2, 3, 4};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ranges[i].property, i % 2 == 0);
    EXPECT_EQ(ranges[i].elements.begin, parameters[first[i]].offset);
    EXPECT_EQ(ranges[i].elements.end, i == 3 ? store.flat_size() : parameters[first[i + 1]].offset);
  }
  EXPECT_EQ(store.ranges_by([](const Parameter&) { return false; }).size(), 1U);
}

TEST(ParameterStore, ShardsInitializeToUnshardedBits) {
  for (const Shape& shape : {Shape{37}, Shape{24, 65}, Shape{6, 10, 7}, Shape{130, 129}}) {
    const Initialized whole(weight(shape));
    const auto values = to_doubles(whole.parameter().value());
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const int64_t extent = shape[dim], half = extent / 2;
      for (const Range range : {Range{0, half}, Range{half, extent}, Range{1, 2}, Range{3, 3}}) {
        const Shard shard{dim, range};
        const Initialized part(weight(shape, shard));
        EXPECT_EQ(to_doubles(part.parameter().value()), cut(values, shape, shard))
            << to_string(shape) << " dim " << dim << " [" << range.begin << ", " << range.end
            << ")";
      }
    }
  }
}

TEST(ParameterStore, InitializationDependsOnSeedNameAndIndex) {
  const Initialized whole(weight({24, 65}));
  std::vector<float> expected(24 * 65);
  random_normal({seed_for(1234, "layer.weight"), RandomPurpose::init, 0, 0}, 0.02f, 0, 24 * 65,
                expected.data());
  const auto actual = whole.parameter().value().span<float>();
  EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin()));
}

TEST(ParameterStore, PaddingStaysZero) {
  const Shape shape{10, 33};
  const Shard shard{0, {5, 10}};
  for (const Init init : {Init::normal(0.02f), Init::ones()}) {
    ParameterSpec spec = weight(shape, shard, 8);
    spec.init = init;
    const Initialized part(spec);
    const Tensor value = part.parameter().value();
    ASSERT_EQ(value.shape(), (Shape{8, 33}));
    EXPECT_EQ(to_doubles(value.slice(5, 8)), std::vector<double>(3 * 33, 0.0));
    for (const double x : to_doubles(value.slice(0, 5))) ASSERT_NE(x, 0.0);
  }
}

TEST(ParameterStore, WeightsHaveRequestedMeanAndDeviation) {
  const Initialized whole(weight({300, 400}));
  const auto values = to_doubles(whole.parameter().value());
  const auto count = static_cast<double>(values.size());
  double mean = 0.0;
  for (const double value : values) mean += value / count;
  // Four standard deviations of either estimate.
  EXPECT_NEAR(mean, 0.0, 4 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(root_mean_square(values), 0.02, 4 * 0.02 / std::sqrt(2 * count));
}

TEST(ParameterStore, BitsDoNotDependOnThreads) {
  const ThreadCount one(1);
  const Initialized expected(weight({300, 401}));
  for (const int threads : {2, 3}) {
    const ThreadCount count(threads);
    const Initialized again(weight({300, 401}));
    expect_same_bits(again.parameter().value(), expected.parameter().value(), "value");
  }
}

TEST(ParameterStore, ValuesAreRoundedMasters) {
  const Initialized full(weight({24, 65}));
  Initialized mixed(weight({24, 65}), DType::bf16);
  OptimizerState state(mixed.store);
  state.initialize(1234);
  const Initialized inference(weight({24, 65}), DType::bf16, StoreFor::inference);
  expect_same_bits(state.of(mixed.parameter()).master.view({24, 65}), full.parameter().value(),
                   "master");
  const auto rounded = from_doubles(to_doubles(full.parameter().value()), {24, 65}, DType::bf16);
  expect_same_bits(mixed.parameter().value(), rounded.tensor, "value");
  expect_same_bits(inference.parameter().value(), rounded.tensor, "value without a master");
}

TEST(ParameterStore, InitKindsAndDuplicateNames) {
  ParameterStore store;
  store.declare({"a", {5, 7}, {}, Init::normal(1.0f)});
  store.declare({"b", {5, 7}, {}, Init::normal(1.0f)});
  store.declare({"ones", {9}, {}, Init::ones()});
  store.declare({"zeros", {9}, {}, Init::zeros()});
  store.allocate(test_device(), DType::f32, StoreFor::training);
  fill(store.flat_grads(), 3.0);
  store.initialize(1);
  const auto& p = store.parameters();
  EXPECT_NE(to_doubles(p[0].value()), to_doubles(p[1].value())) << "names must not share numbers";
  EXPECT_EQ(to_doubles(p[2].value()), std::vector<double>(9, 1.0));
  EXPECT_EQ(to_doubles(p[3].value()), std::vector<double>(9, 0.0));
  const auto first = to_doubles(p[0].value());
  store.initialize(2);
  EXPECT_NE(to_doubles(p[0].value()), first) << "seeds must not share numbers";
  store.initialize(1);
  EXPECT_EQ(to_doubles(p[0].value()), first);
  EXPECT_EQ(root_mean_square(to_doubles(store.flat_grads())), 3.0) << "gradients are unchanged";
  store.zero_grads();
  EXPECT_EQ(root_mean_square(to_doubles(store.flat_grads())), 0.0);
}

TEST(ParameterStore, InvalidGradientsAreOverwrittenOrCleared) {
  ParameterStore store;
  Parameter& product = store.declare({"product", {5, 7}, {}, Init::zeros()});
  Parameter& sum = store.declare({"sum", {9}, {}, Init::zeros()});
  store.allocate(test_device(), DType::f32, StoreFor::training);
  EXPECT_EQ(product.next_accumulate(), Accumulate::yes) << "a new store's gradients are zeros";

  fill(store.flat_grads(), 3.0);
  store.invalidate_grads();
  EXPECT_EQ(root_mean_square(to_doubles(product.grad())), 3.0) << "invalidating writes nothing";
  EXPECT_EQ(product.next_accumulate(), Accumulate::no);
  EXPECT_EQ(product.next_accumulate(), Accumulate::yes) << "only the first write overwrites";
  EXPECT_EQ(to_doubles(sum.grad_to_add_to()), std::vector<double>(9, 0.0));
  fill(sum.grad(), 2.0);
  EXPECT_EQ(to_doubles(sum.grad_to_add_to()), std::vector<double>(9, 2.0));

  store.invalidate_grads();
  EXPECT_EQ(store.invalid_grads(), 2u);
  EXPECT_EQ(product.next_accumulate(), Accumulate::no);
  EXPECT_EQ(store.invalid_grads(), 1u);
  store.mark_grads_valid();
  EXPECT_EQ(store.invalid_grads(), 0u);
  EXPECT_EQ(sum.next_accumulate(), Accumulate::yes);

  store.invalidate_grads();
  store.zero_grads();
  EXPECT_EQ(product.next_accumulate(), Accumulate::yes);
  EXPECT_FALSE(sum.grad_is_invalid);
}

/// All kinds of parameters: padded, split along dim 1, small, of ones, and empty.
void declare_many(ParameterStore& store) {
  store.declare(weight({24, 65}, {0, {8, 13}}, 8));
  store.declare({"columns", {6, 40, 7}, {1, {10, 30}}, Init::normal(1.0f), true});
  store.declare({"small", {3}, {}, Init::normal(1.0f)});
  store.declare({"ones", {130}, {}, Init::ones()});
  store.declare({"empty", {9, 5}, {0, {9, 9}}, Init::normal(1.0f), true, 4});
  store.declare({"zeros", {70}, {}, Init::zeros()});
}

TEST(ParameterStore, EightBitMomentsHaveScales) {
  for (const int shards : {1, 3}) {
    for (int shard = 0; shard < shards; ++shard) {
      ParameterStore store;
      store.declare({"large", {70, 100}, {}, Init::zeros()});
      store.declare({"small", {4095}, {}, Init::zeros()});
      store.declare({"matrix", {64, 64}, {}, Init::zeros()});
      store.allocate(kCpu, DType::bf16, StoreFor::training, {shards, shard, 2000});
      const OptimizerState state(
          store, {DType::u8, [](const Parameter& p) { return p.name != "matrix"; }});
      // Two codes per number, or one of the matrix, and a scale for 256; fp32 of what is small.
      const double ideal = (2.0 * 7000 + 4096) * (1.0 + 4.0 / 256) / shards + 8.0 * 4095;
      EXPECT_GE(static_cast<double>(state.moment_bytes()), ideal);
      EXPECT_LE(static_cast<double>(state.moment_bytes()), ideal + 2.0 * 4096 / shards + 1024);
      std::set<const void*> places;
      for (const Parameter& parameter : store.parameters()) {
        const OptimizerShard& own = state.of(parameter);
        const bool small = parameter.name == "small", has_second = parameter.name != "matrix";
        EXPECT_EQ(own.exp_avg.dtype(), small ? DType::f32 : DType::u8);
        EXPECT_EQ(own.exp_avg.numel(), own.elements.size());
        EXPECT_EQ(own.exp_avg_scales.defined(), !small);
        EXPECT_EQ(own.exp_avg_sq.defined(), has_second);
        EXPECT_EQ(own.exp_avg_sq_scales.defined(), has_second && !small);
        if (own.elements.empty()) continue;
        for (const Tensor& tensor :
             {own.exp_avg, own.exp_avg_sq, own.exp_avg_scales, own.exp_avg_sq_scales}) {
          if (!tensor.defined()) continue;
          EXPECT_TRUE(places.insert(tensor.raw()).second) << parameter.name;
          fill(tensor, 1.0);
        }
        if (!small) {
          EXPECT_EQ(own.exp_avg_scales.numel(), ceil_div(own.elements.size(), kCodeBlock));
        }
      }
      // Filling one must not have changed another.
      for (const Parameter& parameter : store.parameters()) {
        const OptimizerShard& own = state.of(parameter);
        if (own.exp_avg_scales.defined()) {
          for (const double x : to_doubles(own.exp_avg_scales)) EXPECT_EQ(x, 1.0);
        } else {
          for (const double x : to_doubles(own.exp_avg)) EXPECT_EQ(x, 1.0);
          for (const double x : to_doubles(own.exp_avg_sq)) EXPECT_EQ(x, 1.0);
        }
      }
    }
  }
}

class SharedStores : public testing::TestWithParam<std::tuple<int, int64_t>> {};

TEST_P(SharedStores, ShardsMatchUnshardedBits) {
  const auto [num_shards, bucket] = GetParam();
  for (const DType precision : {DType::f32, DType::bf16}) {
    ParameterStore whole;
    declare_many(whole);
    whole.allocate(test_device(), precision, StoreFor::training);
    OptimizerState of_whole(whole);
    of_whole.initialize(1234);
    std::vector<std::vector<double>> masters(whole.parameters().size());
    for (int shard = 0; shard < num_shards; ++shard) {
      ParameterStore store;
      declare_many(store);
      store.allocate(test_device(), precision, StoreFor::training, {num_shards, shard, bucket});
      OptimizerState state(store);
      state.initialize(1234);
      const bool has_masters = precision != DType::f32;
      EXPECT_EQ(state.moment_bytes() * static_cast<size_t>(num_shards),
                static_cast<size_t>(store.flat_size()) * 2 * sizeof(float));
      EXPECT_EQ(state.master_bytes(), has_masters ? state.moment_bytes() / 2 : 0);
      for (size_t i = 0; i < masters.size(); ++i) {
        const Parameter &mine = store.parameters()[i], &all = whole.parameters()[i];
        expect_same_bits(mine.value(), all.value(), "value");
        const OptimizerShard& owned = state.of(mine);
        if (owned.elements.empty()) continue;
        EXPECT_EQ(owned.elements.begin, static_cast<int64_t>(masters[i].size())) << mine.name;
        for (const Tensor& run : {owned.value, owned.grad, owned.master, owned.exp_avg}) {
          EXPECT_EQ(run.shape(), (Shape{owned.elements.size()})) << mine.name;
        }
        const auto piece = to_doubles(owned.master);
        masters[i].insert(masters[i].end(), piece.begin(), piece.end());
      }
    }
    for (size_t i = 0; i < masters.size(); ++i) {
      const Parameter& all = whole.parameters()[i];
      EXPECT_EQ(masters[i], to_doubles(of_whole.of(all).master)) << all.name;
    }
  }
}

TEST_P(SharedStores, ShardRangesMatchRanges) {
  const auto [num_shards, bucket] = GetParam();
  const auto decays = [](const Parameter& parameter) { return parameter.decay; };
  std::vector<int> seen;
  std::vector<bool> property;
  for (int shard = 0; shard < num_shards; ++shard) {
    ParameterStore store;
    declare_many(store);
    store.allocate(test_device(), DType::bf16, StoreFor::training, {num_shards, shard, bucket});
    seen.resize(static_cast<size_t>(store.flat_size()));
    property.resize(seen.size());
    for (const FlatRange& range : store.ranges_by(decays)) {
      for (int64_t i = range.elements.begin; i < range.elements.end; ++i) {
        property[static_cast<size_t>(i)] = range.property;
      }
    }
    const OptimizerState state(store);
    int64_t last = 0;
    for (const OptimizerRange& range : state.ranges_by(decays)) {
      EXPECT_GE(range.shard.elements.begin, last);
      last = range.shard.elements.end;
      const FlatBucket& place = store.layout().buckets()[range.bucket];
      EXPECT_TRUE(num_shards == 1 ||
                  intersect(place.shard, range.shard.elements) == range.shard.elements);
      fill(range.shard.exp_avg, 1.0);
      for (int64_t i = range.shard.elements.begin; i < last; ++i) {
        ++seen[static_cast<size_t>(i)];
        EXPECT_EQ(property[static_cast<size_t>(i)], range.property);
      }
    }
    // The same elements of the state, accessed otherwise.
    for (const Parameter& parameter : store.parameters()) {
      for (const double x : to_doubles(state.of(parameter).exp_avg)) ASSERT_EQ(x, 1.0);
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

INSTANTIATE_TEST_SUITE_P(Cuts, SharedStores,
                         testing::Combine(testing::Values(1, 2, 3, 4, 16),
                                          testing::Values<int64_t>(1, 500, 100000)));

TEST(ParameterStore, ValuesOfUnitsComeAndGo) {
  for (const bool freezes : {false, true}) {
    ParameterStore store;
    store.declare(weight({24, 65}));
    for (const char* name : {"blocks.0", "blocks.1", "head"}) {
      store.begin_unit(name);
      if (std::string(name) == "blocks.1") store.begin_unit(name);  // none is empty
      store.declare({std::string(name) + ".weight", {30, 7}, {}, Init::normal(1.0f)});
      store.declare({std::string(name) + ".bias", {31}, {}, Init::normal(1.0f)});
    }
    store.freeze([&](const Parameter& p) { return freezes && p.name.ends_with("weight"); });
    expect_error([&] { (void)store.parameters()[0].value(); },
                 {"layer.weight", "not on this rank"});
    store.allocate(test_device(), DType::bf16, StoreFor::training, {2, 1, 100});
    store.initialize(1);
    ASSERT_EQ(store.units().size(), 4U);
    for (const FlatBucket& bucket : store.layout().buckets()) {
      const auto& parameters = store.parameters();
      EXPECT_EQ(parameters[static_cast<size_t>(bucket.parameters.begin)].unit,
                parameters[static_cast<size_t>(bucket.parameters.end - 1)].unit);
    }
    for (size_t unit = 0; unit < store.units().size(); ++unit) {
      const Range members = store.units()[unit].parameters;
      const UnitValues home = store.values_of(unit);
      const OwnedTensor trained = copy_of(home.trained), frozen = copy_of(home.frozen);
      store.release_values(unit);
      for (const Parameter& parameter : store.parameters()) {
        if (!members.contains(static_cast<int64_t>(parameter.index))) {
          EXPECT_NO_THROW((void)parameter.value());
          continue;
        }
        EXPECT_EQ(store.units()[parameter.unit].name, store.units()[unit].name);
        expect_error([&] { (void)parameter.value(); },
                     {parameter.name.c_str(), "not on this rank"});
      }
      fill(home.trained, 0.0);
      fill(home.frozen, 0.0);
      store.place_values(unit, {trained.tensor, frozen.tensor});
      for (int64_t i = members.begin; i < members.end; ++i) {
        const Parameter& parameter = store.parameters()[static_cast<size_t>(i)];
        const OwnedTensor expected(parameter.local_shape, DType::bf16, test_device());
        write_initial(parameter, 1, 0, expected.tensor);
        expect_same_bits(parameter.value(), expected.tensor, parameter.name.c_str());
      }
    }
  }
}

TEST(ParameterStore, SupportsMetaDevice) {
  ParameterStore store;
  store.declare(weight({24, 65}));
  expect_error([&] { store.initialize(1); }, {"before it was allocated"});
  store.allocate(kMeta, DType::bf16, StoreFor::training);
  OptimizerState(store).initialize(1);
  store.zero_grads();
}

}  // namespace
}  // namespace tessera
