#include "core/parameters/optimizer_state.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/block_codes.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

constexpr int64_t kAlignedFloats = kAlignment / sizeof(float);

}  // namespace

OptimizerState::OptimizerState(ParameterStore& store, const OptimizerStateSpec& spec)
    : store_(store), spec_(spec) {
  require(spec.moments == DType::f32 || spec.moments == DType::bf16 || spec.moments == DType::u8,
          "moments are fp32, bf16 or uint8, not {}", to_string(spec.moments));
  require(store.grad_bytes() > 0 || store.flat_size() == 0,
          "an optimizer needs gradients, but its parameters are for inference");
  const MemoryUse use("weights, gradients and moments");
  const Device device = store.device();
  const FlatLayout& layout = store.layout();
  const auto flat = [&](int64_t elements, DType dtype, bool wanted) {
    return Buffer(wanted ? static_cast<size_t>(elements) * size_of(dtype) : 0, device);
  };
  masters_ = flat(layout.shard_size(), DType::f32, has_masters());
  exp_avg_ = flat(layout.shard_size(), spec.moments, true);
  ema_ = flat(layout.shard_size(), DType::f32, spec.average);
  exp_avg_sq_ = flat(place_second_moments(), spec.moments, true);
  if (has_masters()) {
    const auto bytes = static_cast<size_t>(store.frozen_layout().shard_size()) * sizeof(float);
    frozen_masters_ = Buffer(bytes, device.is_meta() ? kMeta : kCpu);
  }
  for (const Parameter& parameter : store.parameters()) shards_.push_back(shard_of(parameter));
  if (spec.moments == DType::u8) {
    allocate_beside_codes();
    place_beside_codes();
  }
}

bool OptimizerState::has_codes(const Parameter& parameter) const {
  return moment_dtype() == DType::u8 && parameter.global_shape.numel() >= kFewestCodes;
}

// As much as any rank needs, so that all need the same memory.
void OptimizerState::allocate_beside_codes() {
  int64_t scales = 0, small = 0;
  for (const Parameter& parameter : store_.parameters()) {
    if (parameter.frozen) continue;
    const int64_t moments = has_second_moment(parameter) ? 2 : 1;
    if (has_codes(parameter)) {
      scales += moments;  // a block that is not full
    } else {
      small += moments * round_up(parameter.slot_size, kAlignedFloats);
    }
  }
  const auto codes = static_cast<int64_t>(exp_avg_.bytes() + exp_avg_sq_.bytes());
  scales += codes / kCodeBlock;
  code_scales_ = Buffer(static_cast<size_t>(scales) * sizeof(float), store_.device());
  small_moments_ = Buffer(static_cast<size_t>(small) * sizeof(float), store_.device());
}

void OptimizerState::place_beside_codes() {
  const auto all_of = [](const Buffer& buffer) {
    return buffer.tensor({static_cast<int64_t>(buffer.bytes() / sizeof(float))}, DType::f32);
  };
  const Tensor scales = all_of(code_scales_), small = all_of(small_moments_);
  int64_t scale = 0, begin = 0;
  for (const Parameter& parameter : store_.parameters()) {
    if (parameter.frozen) continue;
    OptimizerShard& own = shards_[parameter.index];
    const auto next_scales = [&] {
      const int64_t first = scale;
      scale += ceil_div(own.elements.size(), kCodeBlock);
      return scales.slice(first, scale);
    };
    const auto next_moment = [&] {
      const Tensor slot = small.slice(begin, begin + parameter.local_shape.numel());
      begin += round_up(parameter.slot_size, kAlignedFloats);
      return slot.slice(own.elements.begin, own.elements.end);
    };
    const bool has_codes_here = has_codes(parameter);
    if (has_codes_here) {
      own.exp_avg_scales = next_scales();
    } else {
      own.exp_avg = next_moment();
    }
    if (!has_second_moment(parameter)) continue;
    if (has_codes_here) {
      own.exp_avg_sq_scales = next_scales();
    } else {
      own.exp_avg_sq = next_moment();
    }
  }
}

// Returns the number of elements in the shards that have most, so that all ranks need the same
// memory.
int64_t OptimizerState::place_second_moments() {
  const FlatLayout& layout = store_.layout();
  std::vector<int64_t> sizes(static_cast<size_t>(layout.sharding().num_shards));
  const auto wanted = [&](const Parameter& p) { return has_second_moment(p); };
  for (const FlatRange& range : store_.ranges_by(wanted)) {
    if (!range.property) continue;
    for (const FlatBucket& bucket : layout.buckets()) {
      for (int shard = 0; shard < bucket.num_shards; ++shard) {
        const Range elements = intersect(range.elements, bucket.shard_of(shard));
        int64_t& size = sizes[static_cast<size_t>(shard)];
        if (elements.empty()) continue;
        if (shard == layout.sharding().shard) {
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
Tensor OptimizerState::second_moments_of(Range elements) const {
  const auto size = static_cast<int64_t>(exp_avg_sq_.bytes() / size_of(moment_dtype()));
  const Tensor all = exp_avg_sq_.tensor({size}, moment_dtype());
  if (elements.empty()) return all.slice(0, 0);
  for (const StoredRange& stored : second_moments_) {
    if (elements.begin < stored.elements.begin || stored.elements.end < elements.end) continue;
    const int64_t begin = stored.begin + elements.begin - stored.elements.begin;
    return all.slice(begin, begin + elements.size());
  }
  return {};
}

// `elements` must be in this rank's shard of one bucket.
OptimizerShard OptimizerState::shard_of(size_t bucket, Range elements) const {
  const FlatLayout& layout = store_.layout();
  const Range state = elements.empty() ? Range{} : layout.in_shard_buffer(bucket, elements);
  const FlatBucket& place = layout.buckets()[bucket];
  const auto piece = [&](const Buffer& buffer, DType dtype) {
    return buffer.tensor({layout.shard_size()}, dtype).slice(state.begin, state.end);
  };
  OptimizerShard shard;
  shard.elements = elements;
  const Range kept = elements.empty() ? Range{place.shard.begin, place.shard.begin} : elements;
  shard.value = store_.values_in(place, kept);
  shard.grad = store_.grads_in(place, kept);
  shard.master = has_masters() ? piece(masters_, DType::f32) : shard.value;
  shard.exp_avg = piece(exp_avg_, moment_dtype());
  shard.exp_avg_sq = second_moments_of(elements);
  if (has_average()) shard.ema = piece(ema_, DType::f32);
  return shard;
}

OptimizerShard OptimizerState::shard_of(const Parameter& parameter) const {
  const FlatLayout& layout = store_.layout_of(parameter);
  const size_t bucket = layout.bucket_of(parameter.index);
  const Range own = store_.owned_elements(parameter);
  const Range flat = {parameter.offset + own.begin, parameter.offset + own.end};
  OptimizerShard shard;
  if (!parameter.frozen) {
    shard = shard_of(bucket, flat);
    if (!has_second_moment(parameter)) shard.exp_avg_sq = {};
  } else {
    const FlatBucket& place = layout.buckets()[bucket];
    shard.value = store_.frozen_values_in(
        place, own.empty() ? Range{place.shard.begin, place.shard.begin} : flat);
    shard.master = shard.value;
    if (has_masters()) {
      const Range state = own.empty() ? Range{} : layout.in_shard_buffer(bucket, flat);
      shard.master =
          frozen_masters_.tensor({layout.shard_size()}, DType::f32).slice(state.begin, state.end);
    }
  }
  shard.elements = own;
  return shard;
}

void OptimizerState::initialize(uint64_t seed) {
  if (store_.device().is_meta()) return;
  for (const Parameter& parameter : store_.parameters()) {
    const OptimizerShard& own = of(parameter);
    const bool whole = own.elements.size() == parameter.real_shape().numel();
    if (has_masters()) write_initial(parameter, seed, own.elements.begin, own.master);
    if (!store_.keeps_values(parameter)) {
      write_initial(parameter, seed, own.elements.begin, own.value);
    } else if (has_masters() && whole && !parameter.frozen) {
      copy(own.master, own.value);
    } else {  // each rank rounds all values itself, whoever owns the masters
      write_initial(parameter, seed, 0, parameter.real_part(parameter.value()));
    }
  }
  start_average();
}

void OptimizerState::start_average() {
  if (!has_average()) return;
  for (const OptimizerRange& range : ranges_by([](const Parameter&) { return 0; })) {
    copy(range.shard.master, range.shard.ema);
  }
}

std::vector<OptimizerRange> OptimizerState::ranges_by(
    const std::function<int(const Parameter&)>& property) const {
  std::vector<OptimizerRange> ranges;
  for (const ShardRange& range : store_.shard_ranges_by(property)) {
    ranges.push_back({shard_of(range.bucket, range.elements), range.bucket, range.property});
  }
  return ranges;
}

}  // namespace tessera
