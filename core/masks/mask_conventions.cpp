#include "core/masks/mask_conventions.h"

#include "core/error.h"

namespace tessera {
namespace {

template <typename T>
void convert_values(const Tensor& mask, uint8_t hides, const Tensor& hidden, const char* op,
                    const char* meaning) {
  const T* in = mask.data<T>();
  uint8_t* out = hidden.data<uint8_t>();
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (in[i] != 0 && in[i] != 1) {
      fail("{}: element {} of mask {} is {}, but must be 0 or 1; here {}", op, i, describe(mask),
           in[i], meaning);
    }
    out[i] = in[i] == hides ? 1 : 0;
  }
}

/// hidden = 1 where mask is `hides`.
void convert(const Tensor& mask, uint8_t hides, const Tensor& hidden, const char* op,
             const char* meaning) {
  require(mask.defined() && (mask.shape().rank() == 2 || mask.shape().rank() == 4),
          "{}: mask must have shape (B, T), (T, T), (B, 1, T, T) or (B, H, T, T), but is {}", op,
          describe(mask));
  require_shape(hidden, mask.shape(), op, "hidden");
  require_dtype(hidden, DType::u8, op, "hidden");
  require(mask.device().is_cpu() && hidden.device().is_cpu(),
          "{}: mask and hidden must be in host memory, but are {} and {}", op, describe(mask),
          describe(hidden));
  switch (mask.dtype()) {
    case DType::u8:
      return convert_values<uint8_t>(mask, hides, hidden, op, meaning);
    case DType::i32:
      return convert_values<int32_t>(mask, hides, hidden, op, meaning);
    case DType::i64:
      return convert_values<int64_t>(mask, hides, hidden, op, meaning);
    default:
      fail(
          "{}: mask must be uint8, int32 or int64, but is {}; a mask of scores is "
          "AttentionMask's `additive`",
          op, describe(mask));
  }
}

}  // namespace

void hidden_from_pytorch(const Tensor& mask, Tensor hidden) {
  convert(mask, 1, hidden, "hidden_from_pytorch", "1 (true) hides and 0 is seen");
}

void hidden_from_hugging_face(const Tensor& mask, Tensor hidden) {
  convert(mask, 0, hidden, "hidden_from_hugging_face", "1 is kept and 0 is padding");
}

void lengths_of(const Tensor& hidden_keys, Tensor lengths) {
  constexpr const char* kOp = "lengths_of";
  require_dtype(hidden_keys, DType::u8, kOp, "hidden_keys");
  require(hidden_keys.shape().rank() == 2, "{}: hidden_keys must have shape (B, T), but is {}", kOp,
          describe(hidden_keys));
  require_shape(lengths, {hidden_keys.dim(0)}, kOp, "lengths");
  require_dtype(lengths, DType::i32, kOp, "lengths");
  require(hidden_keys.device().is_cpu() && lengths.device().is_cpu(),
          "{}: hidden_keys and lengths must be in host memory, but are {} and {}", kOp,
          describe(hidden_keys), describe(lengths));
  const int64_t seq = hidden_keys.dim(1);
  for (int64_t b = 0; b < hidden_keys.dim(0); ++b) {
    const uint8_t* hidden = hidden_keys.data<uint8_t>() + b * seq;
    int64_t length = 0;
    while (length < seq && hidden[length] == 0) ++length;
    for (int64_t t = length; t < seq; ++t) {
      require(hidden[t] != 0,
              "{}: key {} of sequence {} is seen, but key {} before it is hidden; lengths say only "
              "padding at the end: use hidden_keys as they are",
              kOp, t, b, length);
    }
    lengths.data<int32_t>()[b] = static_cast<int32_t>(length);
  }
}

}  // namespace tessera
