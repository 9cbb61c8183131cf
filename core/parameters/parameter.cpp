#include "core/parameters/parameter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/block_codes.h"
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

// Fills `out` with elements of the real part, starting at `first`.
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

constexpr int64_t kAlignedFloats = kAlignment / sizeof(float);

/// The part of a flat tensor, from `offset`, that is this parameter.
Tensor view_of(const Tensor& flat, int64_t offset, const Parameter& parameter) {
  return flat.slice(offset, offset + parameter.local_shape.numel()).view(parameter.local_shape);
}

}  // namespace

Accumulate Parameter::next_accumulate() {
  return std::exchange(grad_is_invalid, false) ? Accumulate::no : Accumulate::yes;
}

const Tensor& Parameter::grad_to_add_to() {
  if (next_accumulate() == Accumulate::no) fill(grad, 0.0);
  return grad;
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
  return parameter;
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

void ParameterStore::omit_second_moments(const std::function<bool(const Parameter&)>& has_none) {
  require(!allocated_, "a store's second moments are chosen before it is allocated");
  for (Parameter& parameter : parameters_) parameter.second_moment = !has_none(parameter);
}

void ParameterStore::keep_average() {
  require(!allocated_, "whether a store keeps an average is chosen before it is allocated");
  keeps_average_ = true;
}

void ParameterStore::store_moments_in(DType dtype) {
  require(!allocated_, "the dtype of a store's moments is chosen before it is allocated");
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::u8,
          "moments are fp32, bf16 or uint8, not {}", to_string(dtype));
  moment_dtype_ = dtype;
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

void ParameterStore::allocate(Device device, DType precision, StoreFor purpose,
                              const OptimizerSharding& sharding) {
  require(!allocated_, "a parameter store is allocated once");
  allocated_ = true;
  device_ = device;
  precision_ = precision;
  allocate_constants();

  std::set<std::string> names;
  std::vector<int64_t> sizes;
  for (const Parameter& parameter : parameters_) {
    require(names.insert(parameter.name).second, "two parameters are named {}", parameter.name);
    sizes.push_back(parameter.frozen ? 0 : parameter.slot_size);
  }
  layout_ = FlatLayout(sizes, sharding);
  require(parameters_.empty() || !std::ranges::all_of(parameters_, &Parameter::frozen),
          "all parameters are frozen");

  const bool training = purpose == StoreFor::training;
  const MemoryUse use(training ? "weights, gradients and moments" : "weights");
  const auto flat = [&](int64_t elements, DType dtype, bool wanted) {
    return Buffer(wanted ? static_cast<size_t>(elements) * size_of(dtype) : 0, device);
  };
  values_ = flat(flat_size(), precision, true);
  grads_ = flat(flat_size(), DType::f32, training);
  masters_ = flat(layout_.shard_size(), DType::f32, training && precision != DType::f32);
  exp_avg_ = flat(layout_.shard_size(), moment_dtype_, training);
  ema_ = flat(layout_.shard_size(), DType::f32, training && keeps_average_);
  for (Parameter& parameter : parameters_) parameter.offset = layout_.offset(parameter.index);
  if (training) exp_avg_sq_ = flat(place_second_moments(), moment_dtype_, true);
  allocate_frozen();

  for (Parameter& parameter : parameters_) {
    if (!parameter.frozen) parameter.value = view_of(flat_values(), parameter.offset, parameter);
    if (training) place_training_state(parameter);
  }
  if (training && moment_dtype_ == DType::u8) {
    allocate_beside_codes();
    place_beside_codes();
  }
}

bool ParameterStore::has_codes(const Parameter& parameter) const {
  return moment_dtype_ == DType::u8 && !parameter.frozen &&
         parameter.global_shape.numel() >= kFewestCodes;
}

// As much as any rank needs, so that all need the same memory.
void ParameterStore::allocate_beside_codes() {
  int64_t scales = 0, small = 0;
  for (const Parameter& parameter : parameters_) {
    if (parameter.frozen) continue;
    const int64_t moments = parameter.second_moment ? 2 : 1;
    if (has_codes(parameter)) {
      scales += moments;  // a block that is not full
    } else {
      small += moments * round_up(parameter.slot_size, kAlignedFloats);
    }
  }
  const auto codes = static_cast<int64_t>(exp_avg_.bytes() + exp_avg_sq_.bytes());
  scales += codes / kCodeBlock;
  code_scales_ = Buffer(static_cast<size_t>(scales) * sizeof(float), device_);
  small_moments_ = Buffer(static_cast<size_t>(small) * sizeof(float), device_);
}

void ParameterStore::place_beside_codes() {
  const auto all_of = [](const Buffer& buffer) {
    return buffer.tensor({static_cast<int64_t>(buffer.bytes() / sizeof(float))}, DType::f32);
  };
  const Tensor scales = all_of(code_scales_), small = all_of(small_moments_);
  int64_t scale = 0, begin = 0;
  for (Parameter& parameter : parameters_) {
    if (parameter.frozen) continue;
    OptimizerShard& own = parameter.optimizer_shard;
    const auto next_scales = [&] {
      const int64_t first = scale;
      scale += ceil_div(own.elements.size(), kCodeBlock);
      return scales.slice(first, scale);
    };
    const auto next_moment = [&](Tensor& part, Tensor& whole) {
      const Tensor slot = small.slice(begin, begin + parameter.local_shape.numel());
      begin += round_up(parameter.slot_size, kAlignedFloats);
      part = slot.slice(own.elements.begin, own.elements.end);
      if (!layout_.sharding().sharded()) whole = slot.view(parameter.local_shape);
    };
    if (has_codes(parameter)) {
      own.exp_avg_scales = next_scales();
      if (parameter.second_moment) own.exp_avg_sq_scales = next_scales();
    } else {
      next_moment(own.exp_avg, parameter.exp_avg);
      if (parameter.second_moment) next_moment(own.exp_avg_sq, parameter.exp_avg_sq);
    }
  }
}

// Returns the number of elements in the shards that have most, so that all ranks need the same
// memory.
int64_t ParameterStore::place_second_moments() {
  const int64_t shards = layout_.sharding().num_shards;
  std::vector<int64_t> sizes(static_cast<size_t>(shards));
  for (const FlatRange& range : ranges_by([](const Parameter& p) { return p.second_moment; })) {
    if (!range.property) continue;
    for (const FlatBucket& bucket : layout_.buckets()) {
      const int64_t piece = bucket.elements.size() / shards;
      for (int64_t shard = 0; shard < shards; ++shard) {
        const int64_t begin = bucket.elements.begin + shard * piece;
        const Range elements = intersect(range.elements, {begin, begin + piece});
        int64_t& size = sizes[static_cast<size_t>(shard)];
        if (elements.empty()) continue;
        if (shard == layout_.sharding().shard) {
          const bool follows =
              !second_moments_.empty() && second_moments_.back().elements.end == elements.begin;
          if (follows) {
            second_moments_.back().elements.end = elements.end;
          } else {
            second_moments_.push_back({elements, size});
          }
        }
        size += elements.size();
      }
    }
  }
  return *std::ranges::max_element(sizes);
}

/// Undefined unless all elements have one.
Tensor ParameterStore::second_moments_of(Range elements) const {
  const auto size = static_cast<int64_t>(exp_avg_sq_.bytes() / size_of(moment_dtype_));
  const Tensor all = exp_avg_sq_.tensor({size}, moment_dtype_);
  if (elements.empty()) return all.slice(0, 0);
  for (const StoredRange& stored : second_moments_) {
    if (elements.begin < stored.elements.begin || stored.elements.end < elements.end) continue;
    const int64_t begin = stored.begin + elements.begin - stored.elements.begin;
    return all.slice(begin, begin + elements.size());
  }
  return {};
}

void ParameterStore::place_training_state(Parameter& parameter) const {
  const size_t bucket = layout_.bucket_of(parameter.index);
  const int64_t begin = parameter.offset;
  Range owned = {begin, begin};
  if (!parameter.frozen) {
    parameter.grad = view_of(flat_grads(), begin, parameter);
    if (precision_ == DType::f32) parameter.master = parameter.value;
    if (!layout_.sharding().sharded()) {
      parameter.master = view_of(flat_masters(), begin, parameter);
      parameter.exp_avg = view_of(exp_avg_.tensor({flat_size()}, moment_dtype_), begin, parameter);
      if (parameter.second_moment) {
        const int64_t size = parameter.local_shape.numel();
        parameter.exp_avg_sq = second_moments_of({begin, begin + size}).view(parameter.local_shape);
      }
    }
    const Range part =
        intersect({begin, begin + parameter.real_shape().numel()}, layout_.buckets()[bucket].shard);
    if (!part.empty()) owned = part;
  }
  parameter.optimizer_shard = shard_of(bucket, owned);
  parameter.optimizer_shard.elements = {owned.begin - begin, owned.end - begin};
  if (!parameter.second_moment) parameter.optimizer_shard.exp_avg_sq = {};
}

void ParameterStore::allocate_frozen() {
  std::vector<int64_t> sizes;
  for (const Parameter& parameter : parameters_) {
    sizes.push_back(parameter.frozen ? parameter.local_shape.numel() : 0);
  }
  const FlatLayout layout(sizes, {});
  const auto size = static_cast<size_t>(layout.size());
  const bool in_fp32 = precision_ == DType::f32;
  frozen_values_ = Buffer(size * size_of(precision_), device_);
  if (!in_fp32) frozen_masters_ = Buffer(size * sizeof(float), device_.is_meta() ? kMeta : kCpu);
  for (Parameter& parameter : parameters_) {
    if (!parameter.frozen) continue;
    const auto view = [&](const Buffer& buffer, DType dtype) {
      return view_of(buffer.tensor({layout.size()}, dtype), layout.offset(parameter.index),
                     parameter);
    };
    parameter.value = view(frozen_values_, precision_);
    parameter.master = in_fp32 ? parameter.value : view(frozen_masters_, DType::f32);
  }
}

// `elements` must be in this rank's shard of one bucket.
OptimizerShard ParameterStore::shard_of(size_t bucket, Range elements) const {
  const Range state = elements.empty() ? Range{} : layout_.in_shard_buffer(bucket, elements);
  const auto flat = [&](const Tensor& tensor) {
    return tensor.slice(elements.begin, elements.end);
  };
  const auto piece = [&](const Buffer& buffer, DType dtype) {
    return buffer.tensor({layout_.shard_size()}, dtype).slice(state.begin, state.end);
  };
  OptimizerShard shard{elements, flat(flat_values()), flat(flat_grads()), {}, {}, {}, {}, {}, {}};
  shard.master = precision_ == DType::f32 ? shard.value : piece(masters_, DType::f32);
  shard.exp_avg = piece(exp_avg_, moment_dtype_);
  shard.exp_avg_sq = second_moments_of(elements);
  if (keeps_average_) shard.ema = piece(ema_, DType::f32);
  return shard;
}

void ParameterStore::initialize(uint64_t seed) {
  require(allocated_, "a parameter store was initialized before it was allocated");
  if (device_.is_meta()) return;
  for (const Parameter& parameter : parameters_) {
    const OptimizerShard& owned = parameter.optimizer_shard;
    const bool has_masters = masters_.bytes() > 0;
    if (parameter.frozen) {
      write_initial(parameter, seed, 0, parameter.real_part(parameter.master));
    } else if (has_masters) {
      write_initial(parameter, seed, owned.elements.begin, owned.master);
    }
    if (has_masters && !parameter.frozen && !layout_.sharding().sharded()) {
      copy(owned.master, owned.value);
    } else {  // each rank rounds all values itself, whoever owns the masters
      write_initial(parameter, seed, 0, parameter.real_part(parameter.value));
    }
  }
  start_average();
}

void ParameterStore::start_average() {
  if (!keeps_average_) return;
  for (const ShardRange& range : shard_ranges_by([](const Parameter&) { return 0; })) {
    copy(range.shard.master, range.shard.ema);
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
      owned.push_back({shard_of(0, range.elements), 0, range.property});
      continue;
    }
    for (size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
      const Range mine = intersect(range.elements, layout_.buckets()[bucket].shard);
      if (!mine.empty()) owned.push_back({shard_of(bucket, mine), bucket, range.property});
    }
  }
  return owned;
}

void ParameterStore::zero_grads() {
  fill(flat_grads(), 0.0);
  mark_grads_valid();
}

void ParameterStore::invalidate_grads() {
  for (Parameter& parameter : parameters_) parameter.grad_is_invalid = !parameter.frozen;
}

size_t ParameterStore::invalid_grads() const {
  return static_cast<size_t>(std::ranges::count_if(parameters_, &Parameter::grad_is_invalid));
}

void ParameterStore::mark_grads_valid() {
  for (Parameter& parameter : parameters_) parameter.grad_is_invalid = false;
}

Tensor ParameterStore::flat_masters() const {
  return precision_ == DType::f32 ? flat_values() : whole_state(masters_, DType::f32, "masters");
}

Tensor ParameterStore::flat_exp_avg() const {
  return whole_state(exp_avg_, moment_dtype_, "exp_avg");
}

Tensor ParameterStore::flat_exp_avg_sq() const {
  require(exp_avg_sq_.bytes() == exp_avg_.bytes(),
          "the optimizer keeps no second moment of some parameters");
  return whole_state(exp_avg_sq_, moment_dtype_, "exp_avg_sq");
}

Tensor ParameterStore::whole_state(const Buffer& buffer, DType dtype, const char* what) const {
  require(dtype != DType::u8, "{} is not whole: it is of 8-bit codes", what);
  require(!layout_.sharding().sharded(),
          "{} of a parameter store with {} optimizer shards are not whole on any rank", what,
          layout_.sharding().num_shards);
  return buffer.tensor({flat_size()}, dtype);
}

}  // namespace tessera
