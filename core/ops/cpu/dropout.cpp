#include "core/ops/dropout.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// Random words drawn at a time: 4 KiB on the stack, which stay in the L1 cache.
constexpr int64_t kTile = 1024;

/// The dropout of a tensor with `columns` columns, as the loops need it.
class Mask {
 public:
  Mask(const Dropout& given, int64_t columns)
      : threshold(given.threshold()),
        scale(given.scale()),
        columns_(columns),
        total_columns_(given.total_columns == 0 ? columns : given.total_columns),
        first_column_(given.first_column) {
    const Dropout dropout = given.resolved();
    key_ = dropout.key;
    first_row_ = dropout.first_row;
    rows_ = dropout.rows.defined() ? dropout.rows.data<int32_t>() : nullptr;
  }

  /// Draws the random words of elements [begin, begin + n).
  void draw(int64_t begin, int64_t n, uint32_t* bits) const {
    if (rows_ == nullptr && total_columns_ == columns_) {
      random_bits(key_, static_cast<uint64_t>(first_row_ * columns_ + begin), n, bits);
      return;
    }
    for (int64_t i = begin; i < begin + n;) {
      const int64_t row = i / columns_, column = i % columns_;
      const int64_t count = std::min(begin + n - i, columns_ - column);
      const int64_t stream_row = first_row_ + (rows_ == nullptr ? row : rows_[row]);
      const int64_t first = stream_row * total_columns_ + first_column_ + column;
      random_bits(key_, static_cast<uint64_t>(first), count, bits + (i - begin));
      i += count;
    }
  }

  const uint32_t threshold;
  const float scale;

 private:
  RandomKey key_;
  int64_t columns_, total_columns_, first_column_, first_row_;
  const int32_t* rows_;
};

template <typename T>
void drop(const T* x, const uint32_t* bits, uint32_t threshold, float scale, int64_t n, T* y) {
  const auto value = [=](int64_t i) {
    const float kept = to_float(x[i]) * scale;
    return bits[i] < threshold ? 0.0f : kept;
  };
  map_blocks(n, y, value, x);
}

template <bool kBias, bool kDrop, typename T>
void branch_end(const T* x, const T* bias, const T* residual, const uint32_t* bits,
                uint32_t threshold, float scale, int64_t n, T* out) {
  const auto value = [=](int64_t i) {
    float branch = to_float(x[i]);
    if constexpr (kBias) branch += to_float(bias[i]);
    const float rest = to_float(residual[i]);
    if constexpr (kDrop) return bits[i] < threshold ? rest : std::fma(branch, scale, rest);
    return rest + branch;
  };
  map_blocks(n, out, value, x, residual);
}

/// Calls body.operator()<a, b>() with two flags as template arguments.
template <typename Body>
void dispatch_flags(bool a, bool b, Body&& body) {
  if (a) {
    b ? body.template operator()<true, true>() : body.template operator()<true, false>();
  } else {
    b ? body.template operator()<false, true>() : body.template operator()<false, false>();
  }
}

}  // namespace

void dropout(const Tensor& x, const Dropout& dropout, Tensor y) {
  const Mask mask(dropout, x.dim(-1));
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
      uint32_t bits[kTile];
      for (int64_t i = begin; i < end; i += kTile) {
        const int64_t n = std::min(kTile, end - i);
        mask.draw(i, n, bits);
        drop(in + i, bits, mask.threshold, mask.scale, n, out + i);
      }
    });
  });
}

// Tiles end at row ends only for the bias; the random bits continue across rows.
void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out) {
  const int64_t columns = x.dim(-1);
  const Mask mask(dropout, columns);
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_flags(bias.defined(), dropout.active(), [&]<bool kBias, bool kDrop>() {
      const T *in = x.data<T>(), *add = residual.data<T>();
      const T* b = kBias ? bias.data<T>() : nullptr;
      T* to = out.data<T>();
      parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
        uint32_t bits[kTile];
        for (int64_t tile = begin; tile < end; tile += kTile) {
          const int64_t tile_end = std::min(tile + kTile, end);
          if constexpr (kDrop) mask.draw(tile, tile_end - tile, bits);
          for (int64_t i = tile; i < tile_end;) {
            const int64_t column = i % columns;
            const int64_t n = kBias ? std::min(tile_end - i, columns - column) : tile_end - i;
            branch_end<kBias, kDrop>(in + i, kBias ? b + column : b, add + i, bits + (i - tile),
                                     mask.threshold, mask.scale, n, to + i);
            i += n;
          }
        }
      });
    });
  });
}

}  // namespace tessera::cpu
