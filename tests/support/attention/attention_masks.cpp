#include "tests/support/attention/attention_masks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "core/error.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

Shape plane_shape(Plane plane, int64_t batch, int64_t seq, int64_t heads) {
  switch (plane) {
    case Plane::none:
    case Plane::square:
      return {seq, seq};
    case Plane::batch:
      return {batch, 1, seq, seq};
    case Plane::heads:
      return {batch, heads, seq, seq};
    case Plane::position:
      return {1, seq + 3, seq + 3};
    case Plane::head_position:
      return {heads, seq + 3, seq + 3};
  }
  fail("a plane has no shape");
}

/// Hides random single keys, every seventh row and, if the sequence is long enough, the tile of the
/// second 64 queries and the first 64 keys.
std::vector<bool> random_hidden(const Shape& shape, std::mt19937_64& generator) {
  const int64_t seq = shape[-1];
  std::vector<bool> hidden;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t t = i / seq % seq, s = i % seq;
    const bool tile = 64 <= t && t < 128 && s < 64;
    hidden.push_back(generator() % 2 == 0 || t % 7 == 3 || tile);
  }
  return hidden;
}

}  // namespace

RandomMask::RandomMask(const MaskParts& parts, int64_t batch, int64_t seq, int64_t heads,
                       uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(generator() % n); };
  const auto make = [&](const Shape& shape, DType dtype) {
    return tensors.emplace_back(shape, dtype).tensor;
  };
  mask.causal = parts.causal;
  mask.window = parts.window;
  mask.dilation = parts.dilation;
  mask.prefix = parts.prefix;
  mask.global_tokens = parts.global_tokens;
  if (parts.lengths) {
    mask.lengths = make({batch}, DType::i32);
    for (int32_t& length : mask.lengths.span<int32_t>()) {
      length = static_cast<int32_t>(below(seq + 1));
    }
  }
  if (parts.hidden_keys) {
    mask.hidden_keys = make({batch, seq}, DType::u8);
    for (uint8_t& hidden : mask.hidden_keys.span<uint8_t>()) hidden = generator() % 2 == 0;
    if (batch > 1) std::memset(mask.hidden_keys.raw(), 1, static_cast<size_t>(seq));
  }
  if (parts.documents) {
    std::vector<int32_t> ends{0};
    while (ends.back() < batch * seq) {
      const int64_t sequence_end = (ends.back() / seq + 1) * seq;
      const int64_t end = ends.back() + 1 + below(seq);
      ends.push_back(static_cast<int32_t>(std::min(end, sequence_end)));
    }
    tensors.push_back(from_ints(ends, {static_cast<int64_t>(ends.size())}));
    mask.documents = tensors.back().tensor;
  }
  if (parts.hidden != Plane::none) {
    mask.hidden = make(plane_shape(parts.hidden, batch, seq, heads), DType::u8);
    const auto hidden = random_hidden(mask.hidden.shape(), generator);
    std::copy(hidden.begin(), hidden.end(), mask.hidden.data<uint8_t>());
  }
  if (parts.additive != Plane::none) {
    mask.additive = make(plane_shape(parts.additive, batch, seq, heads), DType::f32);
    const auto hidden = random_hidden(mask.additive.shape(), generator);
    const TestTensor numbers = random_tensor(mask.additive.shape(), DType::f32, seed + 1);
    for (size_t i = 0; i < hidden.size(); ++i) {
      mask.additive.data<float>()[i] = hidden[i] ? kMinusInf : numbers.tensor.data<float>()[i];
    }
  }
}

AttentionRun::AttentionRun(const Tensor& qkv, const Tensor& dout, const AttentionOptions& options)
    : out(dout.shape(), qkv.dtype()),
      log_sum_exp({qkv.dim(0), dout.dim(2), qkv.dim(1)}, DType::f32),
      dqkv(qkv.shape(), qkv.dtype()),
      dposition_bias(options.position_bias.defined() ? options.position_bias.shape() : Shape{0},
                     DType::f32) {
  const bool has_bias = options.position_bias.defined();
  attention_forward(qkv, options, out.tensor, log_sum_exp.tensor);
  attention_backward(dout, qkv, out.tensor, log_sum_exp.tensor, options, dqkv.tensor,
                     has_bias ? dposition_bias.tensor : Tensor());
}

namespace {

/// Returns ranges of heads of a tensor (..., H, D), one after the other.
TestTensor ranges_of(const Tensor& tensor, const std::vector<Range>& ranges) {
  Shape shape = tensor.shape();
  const int64_t heads = shape[-2], columns = shape[-1];
  int64_t count = 0;
  for (const Range& range : ranges) count += range.size();
  shape.set(-2, count);
  TestTensor part(shape, tensor.dtype());
  const size_t head = static_cast<size_t>(columns) * size_of(tensor.dtype());
  auto* to = static_cast<std::byte*>(part.tensor.raw());
  for (int64_t row = 0; row < tensor.numel() / (heads * columns); ++row) {
    for (const Range& range : ranges) {
      const auto* from = static_cast<const std::byte*>(tensor.raw());
      const size_t bytes = static_cast<size_t>(range.size()) * head;
      std::memcpy(to, from + static_cast<size_t>(row * heads + range.begin) * head, bytes);
      to += bytes;
    }
  }
  return part;
}

}  // namespace

TestTensor heads_of(const Tensor& tensor, int64_t begin, int64_t end) {
  return ranges_of(tensor, {{begin, end}});
}

TestTensor groups_of(const Tensor& qkv, int64_t kv_heads, int64_t begin, int64_t end) {
  const int64_t heads = qkv.dim(2) - 2 * kv_heads, in_group = heads / kv_heads;
  const int64_t values = heads + kv_heads;
  return ranges_of(qkv, {{begin * in_group, end * in_group},
                         {heads + begin, heads + end},
                         {values + begin, values + end}});
}

Tensor rows_within(const Tensor& tensor, int64_t begin, int64_t end) {
  require(tensor.dim(0) == 1, "rows_within accepts one sequence, not {}", describe(tensor));
  Shape shape = tensor.shape();
  shape.set(1, end - begin);
  const int64_t columns = tensor.numel() / tensor.dim(1);
  return tensor.view({tensor.dim(1), columns}).slice(begin, end).view(shape);
}

}  // namespace tessera::test
