#pragma once

#include <algorithm>
#include <cstdint>

#include "core/arena.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/ops/block_codes.h"
#include "core/parameters/optimizer_state.h"
#include "core/range.h"

namespace tessera {

/// The most elements whose 8-bit moments are in fp32 at a time: enough to keep a GPU busy, and few
/// enough for its L2 cache.
inline constexpr int64_t kMomentPart = int64_t{1} << 20;
static_assert(kMomentPart % kCodeBlock == 0);

/// The most elements in a part of for_each_moment_part(): the same on every rank.
inline int64_t largest_moment_part(const ParameterStore& store) {
  int64_t largest = 0;
  for (const Parameter& parameter : store.parameters()) {
    if (!parameter.frozen) largest = std::max(largest, parameter.slot_size);
  }
  return std::min(largest, kMomentPart);
}

/// Calls step(part, exp_avg, exp_avg_sq) for parts that cover `run`, counted from its first
/// element, with moments that an op can update: those of the run or, if they are 8-bit, their
/// numbers in fp32, which are encoded afterwards. These take memory for `largest_part` elements
/// from `scratch`. exp_avg_sq is undefined if the run has one moment.
template <typename Step>
void for_each_moment_part(int64_t largest_part, const OptimizerShard& run, Arena* scratch,
                          const Step& step) {
  const int64_t size = run.elements.size();
  if (!run.exp_avg_scales.defined()) return step(Range{0, size}, run.exp_avg, run.exp_avg_sq);
  require(scratch != nullptr, "optimizer: 8-bit moments need scratch memory");
  const Arena::Scope scope(*scratch);
  const bool has_squares = run.exp_avg_sq_scales.defined();
  const Tensor m = scratch->allocate({largest_part}, DType::f32);
  const Tensor v = has_squares ? scratch->allocate({largest_part}, DType::f32) : Tensor();
  for (int64_t begin = 0; begin < size; begin += kMomentPart) {
    const Range part = {begin, std::min(size, begin + kMomentPart)};
    const Range blocks = {begin / kCodeBlock, ceil_div(part.end, kCodeBlock)};
    const auto of = [](const Tensor& tensor, Range range) {
      return tensor.slice(range.begin, range.end);
    };
    const Tensor exp_avg = m.slice(0, part.size());
    const Tensor codes = of(run.exp_avg, part), scales = of(run.exp_avg_scales, blocks);
    dequantize_blocks(codes, scales, CodeMap::signed_numbers, exp_avg);
    if (!has_squares) {
      step(part, exp_avg, Tensor());
    } else {
      const Tensor exp_avg_sq = v.slice(0, part.size());
      const Tensor codes_sq = of(run.exp_avg_sq, part);
      const Tensor scales_sq = of(run.exp_avg_sq_scales, blocks);
      dequantize_blocks(codes_sq, scales_sq, CodeMap::unsigned_numbers, exp_avg_sq);
      step(part, exp_avg, exp_avg_sq);
      quantize_blocks(exp_avg_sq, CodeMap::unsigned_numbers, codes_sq, scales_sq);
    }
    quantize_blocks(exp_avg, CodeMap::signed_numbers, codes, scales);
  }
}

}  // namespace tessera
