#pragma once

#include <vector>

#include "core/masks/attention_mask.h"
#include "core/ops/attention.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// The part of a mask that says what heads may not see, by its shape.
enum class Plane : uint8_t { none, square, batch, heads };  // -, (T, T), (B, 1, T, T), (B, H, T, T)

/// Which parts a mask is to have.
struct MaskParts {
  bool causal = false;
  int64_t window = 0;
  bool lengths = false;
  bool hidden_keys = false;
  bool documents = false;
  Plane hidden = Plane::none;
  Plane additive = Plane::none;
};

/// A mask with random parts, and the tensors that it looks at. About half of the keys stay visible
/// to a part, in one sequence all of `hidden_keys` are hidden, and `hidden` and `additive` hide
/// some rows and some whole tiles.
struct RandomMask {
  RandomMask(const MaskParts& parts, int64_t batch, int64_t seq, int64_t heads, uint64_t seed);

  AttentionMask mask;
  std::vector<TestTensor> tensors;
};

/// Everything that one attention reads and writes; B × T rows of qkv (B, T, 3, Hl, D).
struct AttentionRun {
  TestTensor out, log_sum_exp, dqkv;

  AttentionRun(const Tensor& qkv, const Tensor& dout, const AttentionOptions& options);
};

/// Heads [begin, end) of a tensor (..., H, D).
TestTensor heads_of(const Tensor& tensor, int64_t begin, int64_t end);

/// Rows [begin, end) of the T of a tensor (1, T, ...).
Tensor rows_within(const Tensor& tensor, int64_t begin, int64_t end);

}  // namespace tessera::test
