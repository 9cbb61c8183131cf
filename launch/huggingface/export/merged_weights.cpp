#include "launch/huggingface/export/merged_weights.h"

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "models/layers/low_rank.h"

namespace tessera {

void MergedWeights::read(const std::string& name, const Shape& shape, const Tensor& tensor) const {
  checkpoint_.read(name, shape, {}, tensor);
  add_adapter(name, shape, tensor);
  scales_.apply(name, tensor);
}

void MergedWeights::add_adapter(const std::string& name, const Shape& shape,
                                const Tensor& tensor) const {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return;
  const std::string layer = name.substr(0, name.size() - kWeight.size());
  const LowRank adapter = low_rank_of(model_, layer);
  const LowRankNames names = low_rank_names(layer);
  if (adapter.rank == 0 || !checkpoint_.has(names.b)) return;

  Shape b_shape = shape;
  b_shape.set(-1, adapter.rank);
  const OwnedTensor a({adapter.rank, shape[-1]}, DType::f32), b(b_shape, DType::f32);
  checkpoint_.read(names.a, a.tensor.shape(), {}, a.tensor);
  checkpoint_.read(names.b, b_shape, {}, b.tensor);
  const OwnedTensor product(shape, DType::f32);
  linear_backward_input(b.tensor, a.tensor, product.tensor);  // B A
  scale(product.tensor, adapter.scale, product.tensor);
  const Tensor whole = tensor.view(shape);
  add(whole, product.tensor, whole);
}

}  // namespace tessera
