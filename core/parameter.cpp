#include "core/parameter.h"

#include <algorithm>
#include <set>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {

Shape Parameter::real_shape() const {
  Shape shape = local_shape;
  if (!shard.replicated()) shape.set(shard.dim, shard.range.size());
  return shape;
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

Tensor ParameterStore::flat_masters() const {
  return precision_ == DType::f32 ? flat_values() : masters_.tensor({flat_size_}, DType::f32);
}

}  // namespace tessera
