#include "models/layers/contrastive_loss.h"

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/positions.h"
#include "core/ops/rows.h"
#include "core/trace/trace.h"

namespace tessera {
namespace {

/// Row g × D + d of text d of sample g.
OwnedTensor rows_by_text(Device device, int64_t samples, int64_t texts) {
  OwnedTensor rows({texts, samples}, DType::i32, device);
  if (device.is_meta()) return rows;
  const OwnedTensor host({texts, samples}, DType::i32);
  int32_t* next = host.tensor.data<int32_t>();
  for (int64_t text = 0; text < texts; ++text) {
    for (int64_t g = 0; g < samples; ++g) *next++ = narrow<int32_t>(g * texts + text);
  }
  copy(host.tensor, rows.tensor);
  return rows;
}

}  // namespace

ContrastiveLoss::ContrastiveLoss(Device device, int64_t samples, int64_t texts, bool symmetric)
    : samples_(samples),
      texts_(texts),
      symmetric_(symmetric),
      rows_(rows_by_text(device, samples, texts)),
      targets_({samples}, DType::i32, device) {
  fill_positions(0, targets_.tensor.view({1, samples}));
}

void ContrastiveLoss::loss_and_gradient(Arena& arena, const Tensor& embeddings, Range local,
                                        float weight, Tensor loss_sum, Tensor gradient) const {
  const TraceRange range("contrastive loss");
  require(embeddings.dim(0) == samples_ * texts_,
          "the contrastive loss is of {} samples of {} texts, but the embeddings are {}", samples_,
          texts_, describe(embeddings));
  const Tensor anchors = rows_.tensor.slice(0, 1).view({samples_});
  const Tensor positives = rows_.tensor.slice(1, 2).view({samples_});
  const Tensor candidates = rows_.tensor.slice(1, texts_).view({(texts_ - 1) * samples_});
  fill(gradient, 0.0);
  add(arena, embeddings, anchors, candidates, local, weight, loss_sum, gradient);
  if (symmetric_) {
    add(arena, embeddings, positives, anchors, local, weight, loss_sum, gradient);
  }
}

void ContrastiveLoss::add(Arena& arena, const Tensor& embeddings, const Tensor& queries,
                          const Tensor& candidates, Range local, float weight, Tensor loss_sum,
                          Tensor gradient) const {
  const Arena::Scope scope(arena);
  const int64_t width = embeddings.dim(1), count = candidates.numel();
  const auto rows_of = [&](const Tensor& rows) {
    const Tensor x = arena.allocate({rows.numel(), width}, DType::f32);
    gather_rows(embeddings, rows, x);
    return x;
  };
  const auto numbers = [&] { return arena.allocate({samples_}, DType::f32); };
  const Tensor q = rows_of(queries), k = rows_of(candidates);
  const Tensor logits = arena.allocate({samples_, count}, DType::f32);
  linear_forward(q, k, {}, logits);

  const Tensor max = numbers(), sum_exp = numbers(), target = numbers(), log_sum_exp = numbers();
  const Tensor& targets = targets_.tensor;
  cross_entropy_statistics(logits, targets, 0, count, max, sum_exp, target);
  const Tensor all = arena.allocate({1}, DType::f64);
  fill(all, 0.0);
  cross_entropy_loss(max, sum_exp, target, targets, log_sum_exp, all);
  const auto own = [&](const Tensor& x) { return x.slice(local.begin, local.end); };
  cross_entropy_loss(own(max), own(sum_exp), own(target), own(targets), own(max), loss_sum);
  cross_entropy_gradient(logits, targets, 0, count, log_sum_exp, weight);

  const Tensor dq = arena.allocate(q.shape(), DType::f32);
  linear_backward_input(logits, k, dq);
  scatter_add_rows(dq, queries, gradient);
  const Tensor dk = arena.allocate(k.shape(), DType::f32);
  linear_backward_weight(logits, q, dk, Accumulate::no);
  scatter_add_rows(dk, candidates, gradient);
}

}  // namespace tessera
