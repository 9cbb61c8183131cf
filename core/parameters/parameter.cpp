#include "core/parameters/parameter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/random.h"
#include "core/threads/parallel_for.h"

namespace tessera {
namespace {

// Writes elements [begin, end) of the real part, row-major in the shard, starting at out[0].
template <typename T>
void write_normal(const Parameter& parameter, const RandomKey& key, int64_t begin, int64_t end,
                  T* out) {
  const GlobalIndex index = parameter.global_index();
  constexpr int64_t kTile = 1024;
  float tile[kTile];
  for (int64_t i = begin; i < end;) {
    const int64_t n = std::min({kTile, end - i, index.run - i % index.run});
    random_normal(key, parameter.init.stddev, static_cast<uint64_t>(index(i)), n, tile);
    std::transform(tile, tile + n, out + (i - begin), [](float x) { return T(x); });
    i += n;
  }
}

}  // namespace

void write_initial(const Parameter& parameter, uint64_t seed, int64_t first, const Tensor& out) {
  if (parameter.init.kind != Init::Kind::normal) {
    return fill(out, parameter.init.kind == Init::Kind::ones ? 1.0 : 0.0);
  }
  if (out.device().is_cuda()) {
    // Computed on the host, so every kind of device has the same bits.
    const OwnedTensor made(out.shape(), out.dtype());
    write_initial(parameter, seed, first, made.tensor);
    return copy(made.tensor, out);
  }
  const RandomKey key{seed_for(seed, parameter.name), RandomPurpose::init, 0, 0};
  dispatch_float(out.dtype(), [&]<typename T>() {
    constexpr int64_t kGrain = 8192;
    T* to = out.data<T>();
    parallel_for(out.numel(), kGrain, [&, to](int64_t begin, int64_t end) {
      write_normal(parameter, key, first + begin, first + end, to + begin);
    });
  });
}

const Tensor& Parameter::value() const {
  require(value_.defined(), "parameter {} is read, but its values are not on this rank now", name);
  return value_;
}

const Tensor& Parameter::grad() const {
  require(grad_.defined(), "parameter {} has no gradient on this rank{}", name,
          frozen ? ": it is frozen" : "");
  return grad_;
}

Accumulate Parameter::next_accumulate() {
  return std::exchange(grad_is_invalid, false) ? Accumulate::no : Accumulate::yes;
}

const Tensor& Parameter::grad_to_add_to() {
  if (next_accumulate() == Accumulate::no) fill(grad(), 0.0);
  return grad();
}

Shape Parameter::real_shape() const {
  Shape shape = local_shape;
  if (!shard.replicated()) shape.set(shard.dim, shard.range.size());
  return shape;
}

AxisSet Parameter::replicated_over() const {
  return shard.replicated() ? kReplicaAxes | AxisSet{Axis::tensor} : kReplicaAxes;
}

GlobalIndex Parameter::global_index() const {
  if (shard.replicated()) return {};
  int64_t inner = 1;
  for (int i = shard.dim + 1; i < global_shape.rank(); ++i) inner *= global_shape[i];
  GlobalIndex result;
  result.first = shard.range.begin * inner;
  if (shard.dim == 0) return result;
  result.run = shard.range.size() * inner;
  result.global_run = global_shape[shard.dim] * inner;
  return result;
}

Tensor Parameter::real_part(const Tensor& local) const {
  const Shape real = real_shape();
  require_shape(local, local_shape, "real_part", name.c_str());
  return real == local_shape ? local : local.slice(0, real[0]);
}

Parameter& ParameterStore::declare(const ParameterSpec& spec) {
  require(!allocated_, "parameter {} was declared after the store was allocated", spec.name);
  const Shard& shard = spec.shard;
  Shape local = spec.global_shape, slot = local;
  if (!shard.replicated()) {
    require(shard.dim >= 0 && shard.dim < local.rank() && 0 <= shard.range.begin &&
                shard.range.begin <= shard.range.end && shard.range.end <= local[shard.dim],
            "parameter {} of shape {} has no range [{}, {}) in dim {}", spec.name,
            to_string(spec.global_shape), shard.range.begin, shard.range.end, shard.dim);
    const int64_t extent = std::max(spec.padded_extent, shard.range.size());
    require(extent == shard.range.size() || shard.dim == 0,
            "parameter {} can be padded only along dim 0", spec.name);
    local.set(shard.dim, extent);
    slot.set(shard.dim, std::max(spec.slot_extent, extent));
  }
  Parameter& parameter = parameters_.emplace_back();
  parameter.name = spec.name;
  parameter.global_shape = spec.global_shape;
  parameter.shard = shard;
  parameter.init = spec.init;
  parameter.decay = spec.decay;
  parameter.partial_over = spec.partial_over;
  parameter.local_rows = spec.local_rows;
  parameter.matrices = spec.matrices;
  parameter.role = spec.role;
  parameter.width_mult = spec.width_mult;
  if (spec.role == WidthRole::hidden) {
    parameter.init.stddev = static_cast<float>(spec.init.stddev / std::sqrt(spec.width_mult));
  }
  parameter.local_shape = local;
  parameter.slot_size = slot.numel();
  parameter.index = parameters_.size() - 1;
  const auto index = static_cast<int64_t>(parameter.index);
  if (begins_unit_) units_.push_back({next_unit_.name, next_unit_.is_block, {index, index}});
  begins_unit_ = false;
  units_.back().parameters.end = index + 1;
  parameter.unit = units_.size() - 1;
  return parameter;
}

void ParameterStore::begin_unit(std::string name, bool is_block) {
  next_unit_ = {std::move(name), is_block, {}};
  begins_unit_ = true;
}

void ParameterStore::shard_rows() {
  for (Parameter& parameter : parameters_) {
    if (parameter.local_rows)
      parameter.partial_over = parameter.partial_over | AxisSet{Axis::tensor};
  }
}

void ParameterStore::freeze(const std::function<bool(const Parameter&)>& is_frozen) {
  require(!allocated_, "parameters are frozen before their store is allocated");
  for (Parameter& parameter : parameters_) parameter.frozen = is_frozen(parameter);
}

const Tensor& ParameterStore::declare_constant(const Tensor& in_host) {
  require(!allocated_, "a constant is declared after a parameter store was allocated");
  require(in_host.device().is_cpu(), "a constant must be in host memory, but is {}",
          describe(in_host));
  return constants_.emplace_back(Constant{in_host, {}, {}}).tensor;
}

size_t ParameterStore::constant_bytes() const {
  size_t bytes = 0;
  for (const Constant& constant : constants_) bytes += constant.in_host.bytes();
  return bytes;
}

void ParameterStore::allocate_constants() {
  for (Constant& constant : constants_) {
    const Tensor& in_host = constant.in_host;
    if (device_.is_cpu()) {
      constant.tensor = in_host;
      continue;
    }
    constant.on_device = Buffer(in_host.bytes(), device_);
    constant.tensor = constant.on_device.tensor(in_host.shape(), in_host.dtype());
    if (!device_.is_meta()) copy(in_host, constant.tensor);
  }
}

FlatLayout ParameterStore::make_layout(bool frozen, const OptimizerSharding& sharding) const {
  std::vector<int64_t> sizes;
  std::vector<UnitBegin> units;
  for (const Parameter& parameter : parameters_) {
    const int64_t size = frozen ? parameter.local_shape.numel() : parameter.slot_size;
    sizes.push_back(parameter.frozen == frozen ? size : 0);
  }
  for (const ParameterUnit& unit : units_) {
    units.push_back({unit.parameters.begin, unit.is_block});
  }
  return {sizes, sharding, units};
}

void ParameterStore::allocate(Device device, Precision precision, StoreFor purpose,
                              const OptimizerSharding& sharding,
                              const OptimizerSharding& of_frozen) {
  require(!allocated_, "a parameter store is allocated once");
  allocated_ = true;
  device_ = device;
  precision_ = precision;
  allocate_constants();
  for (Parameter& parameter : parameters_) {
    parameter.fp8 = precision.fp8 && parameter.matrices && is_inner_block(parameter.unit);
  }

  std::set<std::string> names;
  for (const Parameter& parameter : parameters_) {
    require(names.insert(parameter.name).second, "two parameters are named {}", parameter.name);
  }
  require(parameters_.empty() || !std::ranges::all_of(parameters_, &Parameter::frozen),
          "all parameters are frozen");
  layout_ = make_layout(/*frozen=*/false, sharding);
  frozen_layout_ = make_layout(/*frozen=*/true, of_frozen);

  const bool training = purpose == StoreFor::training;
  const MemoryUse use(training ? "weights, gradients and moments" : "weights");
  const auto flat = [&](int64_t elements, DType dtype) {
    return Buffer(static_cast<size_t>(elements) * size_of(dtype), device);
  };
  values_ = flat(layout_.values_size(), precision);
  frozen_values_ = flat(frozen_layout_.values_size(), precision);
  if (training) grads_ = flat(layout_.gradients_size(), DType::f32);
  for (Parameter& parameter : parameters_) {
    parameter.offset = layout_of(parameter).offset(parameter.index);
    if (!training || parameter.frozen || !keeps_gradients(parameter)) continue;
    const Range own = {parameter.offset, parameter.offset + parameter.local_shape.numel()};
    parameter.grad_ = grads_in(bucket_of(parameter), own).view(parameter.local_shape);
  }
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (keeps_values(unit)) place_values(unit, values_of(unit));
  }
}

bool ParameterStore::is_inner_block(size_t unit) const {
  const auto is_block = [&](size_t u) { return u < units_.size() && units_[u].is_block; };
  return unit > 0 && is_block(unit - 1) && is_block(unit) && is_block(unit + 1);
}

bool ParameterStore::keeps_values(size_t unit) const {
  const auto first = static_cast<size_t>(units_[unit].parameters.begin);
  const auto shards_in = [&](const FlatLayout& layout) {
    return layout.buckets()[layout.bucket_of(first)].shards_values();
  };
  return !shards_in(layout_) && !shards_in(frozen_layout_);
}

Tensor ParameterStore::values_in(const FlatBucket& bucket, Range elements) const {
  const int64_t shift = bucket.values_begin - bucket.values.begin;
  return flat_values().slice(elements.begin + shift, elements.end + shift);
}

Tensor ParameterStore::frozen_values_in(const FlatBucket& bucket, Range elements) const {
  const int64_t shift = bucket.values_begin - bucket.values.begin;
  return frozen_values_.tensor({frozen_layout_.values_size()}, precision_)
      .slice(elements.begin + shift, elements.end + shift);
}

Tensor ParameterStore::grads_in(const FlatBucket& bucket, Range elements) const {
  const int64_t shift = bucket.gradients_begin - bucket.gradients.begin;
  return flat_grads().slice(elements.begin + shift, elements.end + shift);
}

ParameterStore::UnitElements ParameterStore::elements_of(size_t unit) const {
  const Range parameters = units_[unit].parameters;
  const auto in = [&](const FlatLayout& layout) {
    const auto& buckets = layout.buckets();
    return Range{buckets[layout.bucket_of(static_cast<size_t>(parameters.begin))].elements.begin,
                 buckets[layout.bucket_of(static_cast<size_t>(parameters.end - 1))].elements.end};
  };
  return {in(layout_), in(frozen_layout_)};
}

UnitValues ParameterStore::values_of(size_t unit) const {
  const UnitElements elements = elements_of(unit);
  const auto first = static_cast<size_t>(units_[unit].parameters.begin);
  return {
      values_in(layout_.buckets()[layout_.bucket_of(first)], elements.trained),
      frozen_values_in(frozen_layout_.buckets()[frozen_layout_.bucket_of(first)], elements.frozen)};
}

void ParameterStore::place_values(size_t unit, const UnitValues& values) {
  const Range parameters = units_[unit].parameters;
  const auto first = static_cast<size_t>(parameters.begin);
  const int64_t trained = layout_.offset(first), frozen = frozen_layout_.offset(first);
  for (auto i = first; i < static_cast<size_t>(parameters.end); ++i) {
    Parameter& parameter = parameters_[i];
    const int64_t begin = parameter.offset - (parameter.frozen ? frozen : trained);
    parameter.value_ = (parameter.frozen ? values.frozen : values.trained)
                           .slice(begin, begin + parameter.local_shape.numel())
                           .view(parameter.local_shape);
  }
}

void ParameterStore::release_values(size_t unit) {
  const Range parameters = units_[unit].parameters;
  for (int64_t i = parameters.begin; i < parameters.end; ++i) {
    parameters_[static_cast<size_t>(i)].value_ = {};
  }
}

void ParameterStore::place_gradients(size_t unit, const Tensor& gradients) {
  const Range parameters = units_[unit].parameters;
  const int64_t first = layout_.offset(static_cast<size_t>(parameters.begin));
  for (int64_t i = parameters.begin; i < parameters.end; ++i) {
    Parameter& parameter = parameters_[static_cast<size_t>(i)];
    if (parameter.frozen) continue;
    const int64_t begin = parameter.offset - first;
    parameter.grad_ = gradients.defined()
                          ? gradients.slice(begin, begin + parameter.local_shape.numel())
                                .view(parameter.local_shape)
                          : Tensor();
  }
}

void ParameterStore::initialize(uint64_t seed) {
  require(allocated_, "a parameter store was initialized before it was allocated");
  if (device_.is_meta()) return;
  for (const Parameter& parameter : parameters_) {
    write_initial(parameter, seed, 0, parameter.real_part(parameter.value()));
  }
}

std::vector<FlatRange> ParameterStore::ranges_by(
    const std::function<int(const Parameter&)>& property) const {
  require(allocated_, "a parameter store has ranges when it is allocated");
  std::vector<FlatRange> ranges;
  for (const Parameter& parameter : parameters_) {
    if (parameter.frozen) continue;
    const int value = property(parameter);
    if (ranges.empty() || ranges.back().property != value) {
      if (!ranges.empty()) ranges.back().elements.end = parameter.offset;
      ranges.push_back({{parameter.offset, flat_size()}, value});
    }
  }
  return ranges;
}

std::vector<ShardRange> ParameterStore::shard_ranges_by(
    const std::function<int(const Parameter&)>& property) const {
  std::vector<ShardRange> owned;
  for (const FlatRange& range : ranges_by(property)) {
    if (!layout_.sharding().sharded()) {
      owned.push_back({range.elements, 0, range.property});
      continue;
    }
    for (size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
      const Range mine = intersect(range.elements, layout_.buckets()[bucket].shard);
      if (!mine.empty()) owned.push_back({mine, bucket, range.property});
    }
  }
  return owned;
}

Range ParameterStore::owned_elements(const Parameter& parameter) const {
  const FlatLayout& layout = layout_of(parameter);
  const int64_t begin = parameter.offset, size = parameter.real_shape().numel();
  const Range shard = layout.buckets()[layout.bucket_of(parameter.index)].shard;
  const Range own = intersect({0, size}, {shard.begin - begin, shard.end - begin});
  return own.empty() ? Range{} : own;
}

void ParameterStore::zero_grads() {
  fill(flat_grads(), 0.0);
  mark_grads_valid();
}

void ParameterStore::invalidate_grads() {
  for (Parameter& parameter : parameters_) parameter.grad_is_invalid = !parameter.frozen;
}

void ParameterStore::invalidate_grads(size_t unit) {
  const Range parameters = units_[unit].parameters;
  for (int64_t i = parameters.begin; i < parameters.end; ++i) {
    Parameter& parameter = parameters_[static_cast<size_t>(i)];
    parameter.grad_is_invalid = !parameter.frozen;
  }
}

size_t ParameterStore::invalid_grads() const {
  return static_cast<size_t>(std::ranges::count_if(parameters_, &Parameter::grad_is_invalid));
}

void ParameterStore::mark_grads_valid() {
  for (Parameter& parameter : parameters_) parameter.grad_is_invalid = false;
}

}  // namespace tessera
