#include "models/layers/attention/source_cache.h"

#include "core/ops/elementwise.h"

namespace tessera {

EncodedSource SourceCache::encoded(const StepContext& ctx, int64_t length) const {
  EncodedSource source;
  source.documents = documents.tensor;
  source.target_documents = ctx.arena.allocate(documents.tensor.shape(), DType::i32);
  for (int64_t i = 0; i <= sources(); ++i) {
    fill(source.target_documents.slice(i, i + 1), static_cast<double>(i * length));
  }
  for (const OwnedTensor& layer : key_values) source.key_values.push_back(layer.tensor);
  return source;
}

size_t SourceCache::bytes() const {
  size_t sum = documents.tensor.bytes();
  for (const OwnedTensor& layer : key_values) sum += layer.tensor.bytes();
  return sum;
}

}  // namespace tessera
