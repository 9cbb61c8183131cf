#include "launch/train/diagnosis/finite_check.h"

#include <algorithm>
#include <cmath>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

}  // namespace

FiniteCheck::FiniteCheck(Device device)
    : converted_({kPiece}, DType::f32, device),
      squares_({1}, DType::f64, device),
      on_host_({1}, DType::f64) {}

// The square of an fp32 number fits into a double, so the sum is finite if all of them are.
bool FiniteCheck::is_finite(const Tensor& tensor) const {
  if (tensor.numel() == 0) return true;
  if (tensor.dtype() == DType::f64) {
    const OwnedTensor copied(tensor.shape(), DType::f64);
    copy(tensor, copied.tensor);
    return std::ranges::all_of(copied.tensor.span<double>(),
                               [](double x) { return std::isfinite(x); });
  }
  if (tensor.dtype() != DType::f32 && tensor.dtype() != DType::bf16) return true;
  fill(squares_.tensor, 0.0);
  if (tensor.dtype() == DType::f32) {
    add_sum_of_squares(tensor, squares_.tensor);
  } else {
    const Tensor all = tensor.view({tensor.numel()});
    for (int64_t begin = 0; begin < all.numel(); begin += kPiece) {
      const int64_t size = std::min(kPiece, all.numel() - begin);
      const Tensor piece = converted_.tensor.slice(0, size);
      copy(all.slice(begin, begin + size), piece);
      add_sum_of_squares(piece, squares_.tensor);
    }
  }
  copy(squares_.tensor, on_host_.tensor);
  return std::isfinite(on_host_.tensor.span<double>()[0]);
}

}  // namespace tessera
