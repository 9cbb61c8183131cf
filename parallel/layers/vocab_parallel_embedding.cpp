#include "parallel/layers/vocab_parallel_embedding.h"

#include "core/ops/embedding.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {

Parameter& declare_vocab_table(ParameterStore& store, const std::string& name, int64_t vocab_size,
                               int64_t hidden_size, float init_stddev, const VocabPartition& vocab,
                               WidthRole role) {
  ParameterSpec table{name,
                      {vocab_size, hidden_size},
                      {0, vocab.local},
                      Init::normal(init_stddev),
                      /*decay=*/true,
                      vocab.padded};
  table.role = role;
  return store.declare(table);
}

VocabParallelEmbedding::VocabParallelEmbedding(ParameterStore& store, const std::string& name,
                                               int64_t vocab_size, int64_t hidden_size,
                                               float init_stddev, Communicator& tp)
    : tp_(tp),
      vocab_(partition_vocab(vocab_size, tp.size(), tp.rank())),
      table_(&declare_vocab_table(store, name, vocab_size, hidden_size, init_stddev, vocab_,
                                  WidthRole::input)) {}

Tensor VocabParallelEmbedding::forward(const StepContext& ctx, const Tensor& ids) {
  ids_.at(ctx) = ids;
  Shape shape = ids.shape();
  shape.push_back(table_->value().dim(1));
  const TrafficScope traffic(Traffic::embedding);
  Tensor out = ctx.arena.allocate(ctx.rows.local_shape_of(shape), table_->value().dtype());
  const Arena::Scope scope(ctx.arena);
  RegionSum sum(ctx, out, tp_);
  embedding_forward(ids, table_->value(), vocab_.local, sum.part());
  sum.start()->wait();
  return out;
}

void VocabParallelEmbedding::backward(const StepContext& ctx, const Tensor& dout) {
  if (table_->frozen) return;
  const TrafficScope traffic(Traffic::embedding);
  const Arena::Scope scope(ctx.arena);
  embedding_backward(ids_.at(ctx), all_rows(ctx, dout, tp_), vocab_.local,
                     table_->grad_to_add_to());
}

}  // namespace tessera
