#include "launch/tools/predict/text_model.h"

#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/model_state.h"
#include "launch/checkpoint/run_state.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The command for a model with this objective, and what it does.
std::string_view use_of(Objective objective) {
  switch (objective) {
    case Objective::causal_lm:
      return "it continues texts, with tessera generate";
    case Objective::masked_lm:
      return "it fills masks, with tessera fill-mask; model.head=classification fine-tunes it to "
             "classify texts";
    case Objective::classification:
      return "it classifies texts, with tessera classify";
    case Objective::token_classification:
      return "it labels words, with tessera classify";
    case Objective::embedding:
      return "it makes vectors of texts, with tessera embed";
    case Objective::seq2seq:
      return "it writes a target text for a source text, with tessera generate";
  }
  return "";
}

/// Batches of texts without labels, whose targets are hidden as in the run of the checkpoint.
BatchShape shape_of_texts(const ModelConfig& config, const Checkpoint& checkpoint, int64_t rows) {
  BatchShape shape{rows, config.seq_length};
  shape.patch_width = traits_of(config).patch_width;
  shape.source_length = traits_of(config).source_length;
  shape.hides_targets = read_run_state(checkpoint.manifest()).hides_targets;
  return shape;
}

}  // namespace

TextModel::TextModel(Checkpoint& checkpoint, Communicator& tp, Device device, int64_t rows,
                     DType precision)
    : config_(model_of(checkpoint)),
      tp_(tp),
      model_(std::make_unique<Model>(config_, store_, tp)),
      buffers_(shape_of_texts(config_, checkpoint, rows)),
      device_batch_(shape_of_texts(config_, checkpoint, rows), device) {
  const MemoryUse use("", precision == DType::f32
                              ? "choose --precision bf16, or start more ranks with `tessera run "
                                "-np N`, which split the model"
                              : kSplitAdvice);
  store_.allocate(device, precision, StoreFor::inference);
  load_weights(checkpoint, store_);
}

Arena& TextModel::reserve(const Passes& largest) {
  const MemoryUse use("", kSplitAdvice);
  ParameterStore dry_store;
  Model dry_model(config_, dry_store, tp_);
  dry_store.allocate(kMeta, store_.precision(), StoreFor::inference);
  Arena dry_arena(kMeta);
  largest(dry_model, StepContext{dry_arena});

  if (!arena_ || arena_->capacity() < dry_arena.peak()) {
    arena_ = std::make_unique<Arena>(store_.device(), dry_arena.peak());
  }
  arena_->reset();
  return *arena_;
}

Tensor TextModel::run(std::span<const Sample> texts, const Ask& ask) {
  const MemoryUse use("", kSplitAdvice);
  buffers_.clear();
  for (const Sample& text : texts) {
    require(std::ssize(text.tokens) <= config_.seq_length,
            "the text has {} tokens, including special tokens, but the model supports at most {} "
            "(model.seq_length): shorten it",
            text.tokens.size(), config_.seq_length);
    buffers_.append(text, config_.vocab_size, "the text", 0);
  }
  const TokenBatch batch = buffers_.batch();
  Arena& arena =
      reserve([&](Model& model, const StepContext& ctx) { ask(model, ctx, on_meta(batch)); });
  const Tensor answer = ask(*model_, StepContext{arena}, device_batch_.upload(buffers_));
  if (answer.device().is_cpu() && answer.dtype() != DType::bf16) return answer;
  answer_ = OwnedTensor(answer.shape(), answer.dtype());
  copy(answer, answer_.tensor);
  if (answer.dtype() == DType::bf16) {
    OwnedTensor widened(answer.shape(), DType::f32);
    copy(answer_.tensor, widened.tensor);
    answer_ = std::move(widened);
  }
  return answer_.tensor;
}

void require_objective(const ModelConfig& config, Objective objective, std::string_view owner) {
  const ModelTraits traits = traits_of(config);
  require(traits.objective == objective, "{} is a {} that this command cannot use: {}", owner,
          traits.name, use_of(traits.objective));
}

}  // namespace tessera
