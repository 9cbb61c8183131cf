#include "models/output_rows.h"

#include "core/ops/elementwise.h"
#include "core/ops/positions.h"
#include "core/ops/rows.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

/// The rows of x (1, N, C).
Tensor matrix(const Tensor& x) { return x.view({x.dim(1), x.dim(2)}); }

Tensor numbers_from(const StepContext& ctx, int64_t first, int64_t count) {
  const Tensor numbers = ctx.arena.allocate({count}, DType::i32);
  fill_positions(first, numbers.view({1, count}));
  return numbers;
}

/// The rows that are read: targets, then first tokens.
Tensor index_of(const StepContext& ctx, const TokenBatch& batch, const ReadByHeads& read) {
  if (!read.first_tokens) return batch.target_rows;
  const Tensor first_tokens = batch.documents.slice(0, batch.num_documents());
  if (!read.targets) return first_tokens;
  const int64_t targets = batch.num_targets(), count = targets + batch.num_documents();
  const Tensor both = ctx.arena.allocate({count}, DType::i32);
  copy(batch.target_rows, both.slice(0, targets));
  copy(first_tokens, both.slice(targets, count));
  return both;
}

}  // namespace

StepContext OutputRows::context(const StepContext& ctx) const {
  StepContext pass = ctx;
  pass.padded_rows = padded_rows;
  pass.rows = rows;
  return pass;
}

Tensor OutputRows::choose_local(const StepContext& ctx, const Tensor& x, Communicator& tp) const {
  if (!rows.split()) return choose(ctx, x);
  const Tensor y = ctx.arena.allocate({1, rows.local().size(), x.dim(2)}, x.dtype());
  const Arena::Scope scope(ctx.arena);
  copy(rows.local_of(chosen_rows(ctx, matrix(x), index, tp)), matrix(y));
  return y;
}

void OutputRows::choose_local_backward(const StepContext& ctx, const Tensor& dy, Tensor dx,
                                       Communicator& tp) const {
  const Arena::Scope scope(ctx.arena);
  scatter(all_rows(context(ctx), dy, tp), dx, ctx.rows.local().begin);
}

Tensor OutputRows::choose(const StepContext& ctx, const Tensor& x) const {
  const Tensor y = ctx.arena.allocate({1, index.numel(), x.dim(2)}, x.dtype());
  gather_rows(matrix(x), index, matrix(y));
  return y;
}

void OutputRows::choose_backward(const Tensor& dy, Tensor dx) const { scatter(dy, dx, 0); }

// A first token may also have a target, and the rows of one scatter must be distinct.
void OutputRows::scatter(const Tensor& dy, Tensor dx, int64_t first) const {
  fill(dx, 0.0);
  for (const Range& part : {Range{0, num_targets}, Range{num_targets, index.numel()}}) {
    if (part.empty()) continue;
    scatter_add_rows(matrix(dy).slice(part.begin, part.end), index.slice(part.begin, part.end),
                     matrix(dx), first);
  }
}

int64_t ReadByHeads::count(int64_t tokens, int64_t num_targets, int64_t num_documents) const {
  const int64_t read = (targets ? num_targets : 0) + (first_tokens ? num_documents : 0);
  return all || 2 * read > tokens ? tokens : read;
}

ReadByHeads read_by_heads(const ModelConfig& config) {
  const auto of_documents = [](Pooling pooling) -> ReadByHeads {
    return {.first_tokens = pooling == Pooling::cls, .all = pooling != Pooling::cls};
  };
  if (architecture_of(config.kind).cross_attention) return {.all = true};
  switch (config.head) {
    case Head::pretraining:
      return {.targets = true, .first_tokens = config.next_sentence};
    case Head::token_classification:
      return {.targets = true};
    case Head::classification:
      return of_documents(config.classifier_pooling);
    case Head::embedding:
      return of_documents(config.embedding_pooling);
  }
  return {.all = true};
}

std::optional<OutputBatch> output_batch(const StepContext& ctx, const TokenBatch& batch,
                                        const ReadByHeads& read) {
  const int64_t targets = read.targets ? batch.num_targets() : 0;
  const int64_t documents = read.first_tokens ? batch.num_documents() : 0;
  const int64_t count = read.count(batch.num_tokens(), targets, documents);
  if (count == batch.num_tokens()) return std::nullopt;
  const TraceRange range("output rows");
  const Tensor index = index_of(ctx, batch, read);
  const auto chosen = [&](const Tensor& values) {
    const Tensor result = ctx.arena.allocate({count}, DType::i32);
    gather_ints(values, index, result);
    return result;
  };
  TokenBatch heads = batch;
  heads.tokens = chosen(batch.tokens);
  heads.padded_rows = chosen(batch.padded_rows);
  heads.positions = heads.token_types = heads.patches = heads.hidden = {};
  heads.target_rows = numbers_from(ctx, 0, targets);
  heads.documents = numbers_from(ctx, targets, documents + 1);
  heads.document_length = 1;
  const PaddedRows padded_rows = {heads.padded_rows, batch.seq_length};
  return OutputBatch{{index, targets, padded_rows, ctx.rows.of(count)}, heads};
}

}  // namespace tessera
