#include "launch/train/model_of_run.h"

#include "core/memory.h"
#include "core/ops/elementwise.h"

namespace tessera {

Arena& ModelOfRun::arena_for(const TokenBatch& batch, const Ask& ask) {
  ParameterStore store;
  Model model(config_.model, store, tp_);
  store.allocate(kMeta, config_.run.precision, StoreFor::inference);
  Arena measured(kMeta);
  ask(model, StepContext{measured}, on_meta(batch));
  if (measured.peak() <= arena_.capacity()) return reserve({});
  const MemoryUse use("the pictures of attention", "set log.attention_interval to 0");
  own_arena_ = std::make_unique<Arena>(arena_.device(), measured.peak());
  return *own_arena_;
}

Tensor ModelOfRun::run(std::span<const Sample> texts, const Ask& ask) {
  const BatchShape shape = batch_shape(std::ssize(texts), config_.model, config_.mlm);
  const Device device = arena_.device();
  buffers_ = std::make_unique<BatchBuffers>(shape, device);
  device_batch_ = std::make_unique<DeviceBatch>(shape, device);
  for (const Sample& text : texts) {
    buffers_->append(text, config_.model.vocab_size, "the text", 0);
  }
  Arena& arena = arena_for(buffers_->batch(), ask);
  const Tensor found = ask(model_, StepContext{arena}, device_batch_->upload(*buffers_));
  answer_ = OwnedTensor(found.shape(), found.dtype());
  copy(found, answer_.tensor);
  return answer_.tensor;
}

}  // namespace tessera
