#pragma once

#include <vector>

#include "core/masks/attention_mask.h"
#include "core/ops/attention.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// The shape of a mask's `hidden` or `additive` part: -, (T, T), (B, 1, T, T), (B, H, T, T) or, by
/// position, (1, R, R), (H, R, R) with an R above T.
enum class Plane : uint8_t { none, square, batch, heads, position, head_position };

/// The parts that a mask should have.
struct MaskParts {
  bool causal = false;
  int64_t window = 0;
  int64_t dilation = 1;
  int64_t prefix = 0;
  int64_t global_tokens = 0;
  bool lengths = false;
  bool hidden_keys = false;
  bool documents = false;
  Plane hidden = Plane::none;
  Plane additive = Plane::none;
};

/// A random mask and the tensors that it refers to. Each part leaves about half of the keys
/// visible; `hidden_keys` hides all keys of one sequence, and `hidden` and `additive` hide some
/// rows and some whole tiles.
struct RandomMask {
  RandomMask(const MaskParts& parts, int64_t batch, int64_t seq, int64_t heads, uint64_t seed);

  AttentionMask mask;
  std::vector<TestTensor> tensors;
};

/// All outputs of one attention, with B × T rows of qkv (B, T, Hl + 2 Kl, D).
struct AttentionRun {
  TestTensor out, log_sum_exp, dqkv;
  TestTensor dposition_bias;  ///< (Hl, 2R − 1), or of no elements if there is no position bias

  AttentionRun(const Tensor& qkv, const Tensor& dout, const AttentionOptions& options);
};

/// Returns heads [begin, end) of a tensor (..., H, D).
TestTensor heads_of(const Tensor& tensor, int64_t begin, int64_t end);
/// Returns the queries, keys and values of groups [begin, end) of qkv (B, T, H + 2 K, D).
TestTensor groups_of(const Tensor& qkv, int64_t kv_heads, int64_t begin, int64_t end);

/// Returns rows [begin, end) of T in a tensor (1, T, ...).
Tensor rows_within(const Tensor& tensor, int64_t begin, int64_t end);

}  // namespace tessera::test
