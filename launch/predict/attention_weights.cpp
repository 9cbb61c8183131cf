#include "launch/predict/predict.h"
#include "models/transformer.h"

namespace tessera {

std::vector<float> attention_weights_of(TextModel& model, const Sample& text, int64_t layer) {
  const int64_t heads = model.config().num_heads / model.tp().size();
  const Tensor mine =
      model.run(text, [&](Model& asked, const StepContext& ctx, const TokenBatch& batch) {
        const StepContext pass = context_for(ctx, batch);
        asked.hidden_states(pass, batch);
        const int64_t count = batch.num_tokens();
        const Tensor weights = ctx.arena.allocate({1, heads, count, count}, DType::f32);
        asked.transformer().attention(layer).weights(pass, weights);
        return weights;
      });
  OwnedTensor all({model.tp().size() * mine.numel()}, DType::f32);
  model.tp().all_gather(mine, all.tensor);
  const auto weights = all.tensor.span<float>();
  return {weights.begin(), weights.end()};
}

}  // namespace tessera
