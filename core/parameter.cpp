#include "core/parameter.h"

#include <algorithm>
#include <set>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/parallel_for.h"
#include "core/random.h"

namespace tessera {
namespace {

// Writes the elements [begin, end) of the rank's real part, counted row-major in the shard.
template <typename T>
void write_normal(const Parameter& parameter, const RandomKey& key, int64_t begin, int64_t end,
                  T* out) {
  const GlobalIndex index = parameter.global_index();
  constexpr int64_t kTile = 1024;
  float tile[kTile];
  for (int64_t i = begin; i < end;) {
    const int64_t n = std::min({kTile, end - i, index.run - i % index.run});
    random_normal(key, parameter.init.stddev, static_cast<uint64_t>(index(i)), n, tile);
    std::transform(tile, tile + n, out + i, [](float x) { return T(x); });
    i += n;
  }
}

void write_initial(const Parameter& parameter, uint64_t seed, const Tensor& real) {
  if (parameter.init.kind != Init::Kind::normal) {
    return fill(real, parameter.init.kind == Init::Kind::ones ? 1.0 : 0.0);
  }
  if (real.device().is_cuda()) {
    // Made on the host: the same bits on every kind of device.
    const OwnedTensor made(real.shape(), real.dtype());
    write_initial(parameter, seed, made.tensor);
    return copy(made.tensor, real);
  }
  const RandomKey key{seed_for(seed, parameter.name), RandomPurpose::init, 0, 0};
  dispatch_float(real.dtype(), [&]<typename T>() {
    constexpr int64_t kGrain = 8192;
    T* out = real.data<T>();
    parallel_for(real.numel(), kGrain, [&, out](int64_t begin, int64_t end) {
      write_normal(parameter, key, begin, end, out);
    });
  });
}

}  // namespace

Shape Parameter::real_shape() const {
  Shape shape = local_shape;
  if (!shard.replicated()) shape.set(shard.dim, shard.range.size());
  return shape;
}

GlobalIndex Parameter::global_index() const {
  if (shard.replicated()) return {};
  int64_t inner = 1;
  for (int i = shard.dim + 1; i < global_shape.rank(); ++i) inner *= global_shape[i];
  GlobalIndex index;
  index.first = shard.range.begin * inner;
  if (shard.dim == 0) return index;
  index.run = shard.range.size() * inner;
  index.global_run = global_shape[shard.dim] * inner;
  return index;
}

Tensor Parameter::real_part(const Tensor& local) const {
  const Shape real = real_shape();
  return real == local_shape ? local : local.slice(0, real[0]);
}

Parameter& ParameterStore::declare(const ParameterSpec& spec) {
  require(!allocated_, "parameter {} was declared after the store was allocated", spec.name);
  const Shard& shard = spec.shard;
  Shape local = spec.global_shape;
  if (!shard.replicated()) {
    require(shard.dim >= 0 && shard.dim < local.rank() && 0 <= shard.range.begin &&
                shard.range.begin <= shard.range.end && shard.range.end <= local[shard.dim],
            "parameter {} of shape {} has no range [{}, {}) in dim {}", spec.name,
            to_string(spec.global_shape), shard.range.begin, shard.range.end, shard.dim);
    const int64_t extent = std::max(spec.padded_extent, shard.range.size());
    require(extent == shard.range.size() || shard.dim == 0,
            "parameter {} can be padded only along dim 0", spec.name);
    local.set(shard.dim, extent);
  }
  Parameter& parameter = parameters_.emplace_back();
  parameter.name = spec.name;
  parameter.global_shape = spec.global_shape;
  parameter.shard = shard;
  parameter.init = spec.init;
  parameter.decay = spec.decay;
  parameter.local_shape = local;
  return parameter;
}

void ParameterStore::allocate(Device device, DType precision, StoreFor purpose) {
  require(!allocated_, "a parameter store is allocated once");
  allocated_ = true;
  device_ = device;
  precision_ = precision;

  std::set<std::string> names;
  constexpr int64_t kElements = kAlignment / sizeof(bfloat16);  // aligned in every dtype
  for (Parameter& parameter : parameters_) {
    require(names.insert(parameter.name).second, "two parameters are named {}", parameter.name);
    parameter.offset = flat_size_;
    flat_size_ += round_up(parameter.local_shape.numel(), kElements);
  }

  const bool training = purpose == StoreFor::training;
  const MemoryUse use(training ? "weights, gradients and AdamW's moments" : "weights");
  const auto flat = [&](DType dtype, bool wanted) {
    return Buffer(wanted ? static_cast<size_t>(flat_size_) * size_of(dtype) : 0, device);
  };
  values_ = flat(precision, true);
  masters_ = flat(DType::f32, training && precision != DType::f32);
  grads_ = flat(DType::f32, training);
  exp_avg_ = flat(DType::f32, training);
  exp_avg_sq_ = flat(DType::f32, training);

  const auto view = [&](const Buffer& buffer, DType dtype, const Parameter& parameter) {
    const int64_t begin = parameter.offset;
    return buffer.tensor({flat_size_}, dtype)
        .slice(begin, begin + parameter.local_shape.numel())
        .view(parameter.local_shape);
  };
  for (Parameter& parameter : parameters_) {
    parameter.value = view(values_, precision, parameter);
    if (!training) continue;
    parameter.grad = view(grads_, DType::f32, parameter);
    parameter.master =
        precision == DType::f32 ? parameter.value : view(masters_, DType::f32, parameter);
    parameter.exp_avg = view(exp_avg_, DType::f32, parameter);
    parameter.exp_avg_sq = view(exp_avg_sq_, DType::f32, parameter);
  }
}

void ParameterStore::initialize(uint64_t seed) {
  require(allocated_, "a parameter store was initialized before it was allocated");
  if (device_.is_meta()) return;
  for (const Parameter& parameter : parameters_) {
    const Tensor& target = parameter.master.defined() ? parameter.master : parameter.value;
    write_initial(parameter, seed, parameter.real_part(target));
  }
  refresh_values();
}

void ParameterStore::refresh_values() {
  if (masters_.bytes() > 0) copy(flat_masters(), flat_values());
}

std::vector<FlatRange> ParameterStore::ranges_by(
    const std::function<bool(const Parameter&)>& property) const {
  require(allocated_, "a parameter store has ranges when it is allocated");
  std::vector<FlatRange> ranges;
  for (const Parameter& parameter : parameters_) {
    const bool value = property(parameter);
    if (ranges.empty() || ranges.back().property != value) {
      if (!ranges.empty()) ranges.back().elements.end = parameter.offset;
      ranges.push_back({{parameter.offset, flat_size_}, value});
    }
  }
  return ranges;
}

void ParameterStore::zero_grads() { fill(flat_grads(), 0.0); }

Tensor ParameterStore::flat_masters() const {
  return precision_ == DType::f32 ? flat_values() : masters_.tensor({flat_size_}, DType::f32);
}

}  // namespace tessera
